#include "engine/data/plain_example.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/example.h"
#include "proto/graph/example.pb.h"

namespace rivulet {
namespace {

const std::vector<std::string> kNames = {"image", "label", "x"};

struct PlainValues {
  std::string_view image;
  int64_t label = 0;
  std::array<float, 2> x = {};
};

bool ReadPlainly(std::string_view example, PlainValues& read) {
  std::array<std::string_view, 3> found;
  return FindPlainFeatures(example, kNames, found) && ReadPlainBytes(found[0], &read.image) &&
         ReadPlainInt64s(found[1], {&read.label, 1}) && ReadPlainFloats(found[2], read.x);
}

// As the readers for every layout have it.
bool ReadOtherwise(std::string_view example, PlainValues& read) {
  return FindBytesFeature(example, "image", &read.image).ok() && FindInt64Feature(example, "label", &read.label).ok() &&
         FindFloatFeature(example, "x", read.x).ok();
}

std::string PlainSample() {
  return ExampleBuilder()
      .Int64("label", 300)
      .Bytes("image", std::string(200, 'x'))
      .Floats("x", std::vector<float>{1, 2})
      .Int64("other", 5)
      .Serialize();
}

TEST(PlainExample, ExamplesOfOurWriterAndOfProtobuf_ArePlain) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["label"].mutable_int64_list()->add_value(300);
  features["image"].mutable_bytes_list()->add_value(std::string(200, 'x'));
  features["x"].mutable_float_list()->add_value(1);
  features["x"].mutable_float_list()->add_value(2);
  features["none"];
  for (const std::string& bytes : {PlainSample(), example.SerializeAsString()}) {
    PlainValues read;
    ASSERT_TRUE(ReadPlainly(bytes, read));
    EXPECT_EQ(read.image, std::string(200, 'x'));
    EXPECT_EQ(read.label, 300);
    EXPECT_EQ(read.x[1], 2.0f);
  }
}

TEST(PlainExample, OtherLayouts_AreLeftToOtherReaders) {
  const std::string sample = PlainSample();
  PlainValues read;
  ASSERT_TRUE(ReadPlainly(sample, read));
  EXPECT_FALSE(ReadPlainly("", read));
  EXPECT_FALSE(ReadPlainly(sample + sample, read));                             // two messages of features
  EXPECT_FALSE(ReadPlainly(sample + std::string("\x3a\0", 2), read));           // an unknown field
  EXPECT_FALSE(ReadPlainly(ExampleBuilder().Int64("x", 1).Serialize(), read));  // no image
  std::array<int64_t, 2> two = {};
  float one = 0;
  std::string_view bytes;
  std::array<std::string_view, 3> found;
  ASSERT_TRUE(FindPlainFeatures(sample, kNames, found));
  EXPECT_FALSE(ReadPlainBytes(found[1], &bytes));                                          // an integer
  EXPECT_FALSE(ReadPlainInt64s(found[1], two));                                            // of which there is one
  EXPECT_FALSE(ReadPlainFloats(found[2], {&one, 1}));                                      // where there are two
  EXPECT_FALSE(ReadPlainInt64s(std::string("\x1a\x02\x08\x05", 4), {two.data(), 1}));      // not packed
  EXPECT_FALSE(ReadPlainInt64s(std::string("\x1a\x03\x0a\x01\x85", 5), {two.data(), 1}));  // half an integer
}

// Property: what is read plainly, whatever the bytes are, is what the readers for every layout read.
TEST(PlainExample, RandomDamage_NeverGivesOtherValues) {
  const std::string sample = PlainSample();
  uint64_t state = 5;
  int plain = 0, not_plain = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string damaged = sample;
    for (int change = 0; change < 2; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      // The first bytes and the last ones, where the frames are, and seldom the 200 of the image.
      size_t at = (state >> 33) % (sample.size() - 180);
      at = at < 40 ? at : at + 180;
      damaged[at] = static_cast<char>(state >> (change == 0 ? 20 : 24) & (round % 2 == 0 ? 0x1F : 0xFF));
    }
    PlainValues read, judge;
    if (!ReadPlainly(damaged, read)) {
      ++not_plain;
      continue;
    }
    ++plain;
    ASSERT_TRUE(ReadOtherwise(damaged, judge)) << round;
    ASSERT_EQ(read.image, judge.image) << round;
    ASSERT_EQ(read.label, judge.label) << round;
    ASSERT_EQ(std::memcmp(read.x.data(), judge.x.data(), sizeof(read.x)), 0) << round;
  }
  EXPECT_GT(plain, 2000);
  EXPECT_GT(not_plain, 2000);
}

}  // namespace
}  // namespace rivulet
