#include "engine/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/data/dataset.h"
#include "proto/graph/example.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Serialized messages by hand: field `number` holding `bytes`.
std::string Field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}
std::string Int64Feature(const std::string& packed) { return Field(3, Field(1, packed)); }
std::string Entry(const std::string& name, const std::string& feature) {
  return Field(1, Field(1, name) + Field(2, feature));
}

std::string Error(std::string_view example, std::string_view name) {
  int64_t value;
  return std::string(Message(FindInt64Feature(example, name, &value)));
}

TEST(Example, BuiltExample_IsReadByProtobuf) {
  const std::vector<float> floats = {0.5f, -1, 3e38f};
  const std::string bytes =
      ExampleBuilder().Int64("label", -3).Bytes("image", std::string("\0\xff", 2)).Floats("x", floats).Serialize();
  proto::Example example;
  ASSERT_TRUE(example.ParseFromString(bytes));
  const auto& features = example.features().feature();
  EXPECT_EQ(features.at("label").int64_list().value(0), -3);
  EXPECT_EQ(features.at("image").bytes_list().value(0), std::string("\0\xff", 2));
  EXPECT_THAT(features.at("x").float_list().value(), ElementsAre(0.5f, -1, 3e38f));
}

TEST(Example, ExampleOfProtobuf_IsRead) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["label"].mutable_int64_list()->add_value(INT64_MIN);
  features["image"].mutable_bytes_list()->add_value(std::string(1000, 'p'));
  for (int i = 0; i < 100; ++i) features["x"].mutable_float_list()->add_value(static_cast<float>(i));
  features["none"];
  const std::string bytes = example.SerializeAsString();
  int64_t label = 0;
  ASSERT_OK(FindInt64Feature(bytes, "label", &label));
  EXPECT_EQ(label, INT64_MIN);
  std::string_view image;
  ASSERT_OK(FindBytesFeature(bytes, "image", &image));
  EXPECT_EQ(image, std::string(1000, 'p'));
  EXPECT_GE(image.data(), bytes.data());  // a view, not a copy
  EXPECT_LT(image.data(), bytes.data() + bytes.size());
  std::vector<float> x(100);
  ASSERT_OK(FindFloatFeature(bytes, "x", x));
  EXPECT_EQ(x[99], 99.0f);
  const auto all = ParseExample(bytes);
  ASSERT_OK(all);
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ((*all)[2].first, "none");
  EXPECT_EQ((*all)[2].second.kind(), FeatureKind::kNone);
}

TEST(Example, UnpackedLists_AreRead) {
  const std::string unpacked = Field(3, std::string("\x08\x05\x08\x07", 4));  // value: 5, value: 7
  EXPECT_EQ(Error(Field(1, Entry("n", unpacked)), "n"), "feature 'n' has 2 int64 values, but 1 is wanted");
  const std::string one = Field(1, Entry("n", Field(3, std::string("\x08\x05", 2))));
  int64_t value = 0;
  ASSERT_OK(FindInt64Feature(one, "n", &value));
  EXPECT_EQ(value, 5);
  const std::string floats = Field(1, Entry("f", Field(2, std::string("\x0d\0\0\x80\x3f\x0d\0\0\0\x40", 10))));
  std::vector<float> f(2);
  ASSERT_OK(FindFloatFeature(floats, "f", f));
  EXPECT_THAT(f, ElementsAre(1.0f, 2.0f));
}

// Each case is also given to Protobuf, which is the judge.
TEST(Example, RepeatedParts_AreMergedAsProtobufDoes) {
  const std::string one = Int64Feature("\x01"), two = Int64Feature("\x02");
  const std::string floats = Field(2, Field(1, std::string("\0\0\x80\x3f", 4)));
  const std::vector<std::string> cases = {
      Field(1, Entry("n", one) + Entry("n", two)),                                    // entries: the last wins
      Field(1, Entry("n", one)) + Field(1, Entry("n", two)),                          // features: merged
      Field(1, Field(1, Field(1, "n") + Field(2, one) + Field(2, two))),              // values: merged
      Field(1, Entry("n", one + two)),                                                // lists: merged
      Field(1, Entry("n", one + floats + two)),                                       // another kind clears
      Field(1, Entry("n", one + floats)),                                             //
      Field(1, Field(1, Field(2, one) + Field(1, "m") + Field(1, "n"))),              // key: the last wins, any order
      Field(1, Field(1, Field(2, one))),                                              // no key: ""
      Field(1, Field(1, Field(1, "n"))),                                              // no value
      Field(1, Entry("n", Field(3, Field(1, "\x01") + std::string("\x08\x05", 2)))),  // packed and not
      std::string("\x1b\x08\x01\x1c", 4) + Field(1, Entry("n", one)),                 // a group, unknown
      Field(7, "unknown") + Field(1, Entry("n", one + Field(9, "x")) + Field(5, "y")),
      "",
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    proto::Example judge;
    ASSERT_TRUE(judge.ParseFromString(cases[i])) << i;
    const auto features = ParseExample(cases[i]);
    ASSERT_OK(features) << i;
    ASSERT_EQ(features->size(), judge.features().feature().size()) << i;
    for (const auto& [name, view] : *features) {
      const proto::Feature& feature = judge.features().feature().at(std::string(name));
      EXPECT_EQ(static_cast<int>(view.kind()), static_cast<int>(feature.kind_case())) << i;
      if (view.kind() == FeatureKind::kInt64) {
        EXPECT_EQ(view.count(), feature.int64_list().value_size()) << i;
        EXPECT_EQ(view.FirstInt64(), feature.int64_list().value(0)) << i;
      }
    }
  }
}

TEST(Example, WrongFeature_IsToldWithWhatIsThere) {
  const std::string example =
      ExampleBuilder().Int64("label", 3).Bytes("image", "xy").Floats("x", std::vector<float>{1, 2}).Serialize();
  EXPECT_EQ(Error(example, "lable"), "the record has no feature 'lable'; it has 'image', 'label', 'x'");
  EXPECT_EQ(Error(example, "image"), "feature 'image' is bytes, but int64 is wanted");
  EXPECT_EQ(Error("", "label"), "the record has no feature 'label'; it has none");
  std::string_view bytes;
  EXPECT_EQ(Message(FindBytesFeature(example, "label", &bytes)), "feature 'label' is int64, but bytes is wanted");
  std::vector<float> three(3);
  EXPECT_EQ(Message(FindFloatFeature(example, "x", three)), "feature 'x' has 2 float values, but 3 are wanted");
  EXPECT_EQ(Error(Field(1, Entry("n", "")), "n"), "feature 'n' is empty; int64 wanted");
}

TEST(Example, MalformedBytes_AreRefused) {
  const std::string example = ExampleBuilder().Int64("label", 300).Bytes("image", "xy").Serialize();
  for (size_t size = 1; size < example.size(); ++size) {
    EXPECT_THAT(ParseExample(std::string_view(example).substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument))
        << size;
  }
  const std::vector<std::string> cases = {
      std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10),  // a length beyond everything
      std::string(11, '\xff'),                                      // a varint without end
      std::string("\x00\x00", 2),                                   // field 0
      std::string("\x0c", 1),                                       // the end of no group
      std::string("\x0e", 1),                                       // wire type 6
      std::string(100000, '\x0b'),                                  // groups within groups
      Field(1, Entry("n", Field(2, Field(1, "abc")))),              // three bytes of floats
      Field(1, Entry("n", Field(3, Field(1, "\x80")))),             // half a varint
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT(ParseExample(cases[i]), StatusIs(absl::StatusCode::kInvalidArgument)) << i;
    EXPECT_EQ(Error(cases[i], "n"), "the record is not a well-formed tf.train.Example") << i;
  }
}

// Property: whatever Protobuf parses we parse, to the same features (it also refuses names that are not UTF-8).
TEST(Example, RandomDamage_IsJudgedAsProtobufDoes) {
  google::protobuf::SetLogHandler(nullptr);
  const std::string example = ExampleBuilder()
                                  .Int64("label", 300)
                                  .Bytes("image", std::string(20, 'x'))
                                  .Floats("x", std::vector<float>{1, 2})
                                  .Serialize();
  uint64_t state = 11;
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = example;
    for (int change = 0; change < 2; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      damaged[(state >> 33) % damaged.size()] = static_cast<char>(state >> 20);
    }
    proto::Example judge;
    const auto ours = ParseExample(damaged);
    if (!judge.ParseFromString(damaged)) continue;
    ++parsed;
    ASSERT_OK(ours) << round;
    ASSERT_EQ(ours->size(), judge.features().feature().size()) << round;
    for (const auto& [name, view] : *ours) {
      const auto& feature = judge.features().feature().at(std::string(name));
      ASSERT_EQ(static_cast<int>(view.kind()), static_cast<int>(feature.kind_case())) << round;
      if (view.kind() == FeatureKind::kFloat) {
        ASSERT_EQ(view.count(), feature.float_list().value_size()) << round;
      }
      if (view.kind() == FeatureKind::kBytes) {
        ASSERT_EQ(view.count(), feature.bytes_list().value_size()) << round;
      }
      if (view.kind() == FeatureKind::kInt64) {
        ASSERT_EQ(view.count(), feature.int64_list().value_size()) << round;
      }
    }
  }
  EXPECT_GT(parsed, 2000);
}

TEST(ClassifyPayload, Kinds_AreTold) {
  EXPECT_EQ(ClassifyPayload(""), PayloadKind::kExample);
  EXPECT_EQ(ClassifyPayload(ExampleBuilder().Int64("label", 3).Serialize()), PayloadKind::kExample);
  proto::SequenceExample sequence;
  (*sequence.mutable_feature_lists()->mutable_feature_list())["s"].add_feature()->mutable_int64_list()->add_value(1);
  EXPECT_EQ(ClassifyPayload(sequence.SerializeAsString()), PayloadKind::kSequenceExample);
  EXPECT_EQ(ClassifyPayload("plain text"), PayloadKind::kOther);
  EXPECT_EQ(ClassifyPayload(std::string("\x09\0\0\0\0\0\0\0\0", 9)), PayloadKind::kOther);  // an Event
}

}  // namespace
}  // namespace rivulet
