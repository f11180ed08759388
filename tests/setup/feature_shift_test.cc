#include "setup/feature_shift.h"

#include <cmath>

#include "engine/data/example.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitExample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDataset;

ModelInput Pixels(std::vector<int64_t> shape) {
  shape.insert(shape.begin(), kUnknownDim);
  return {"image", {DType::kFloat32, Shape(shape)}, FeatureEncoding::kUint8, 1.0 / 255};
}

Shares Dealt(std::vector<uint64_t> ends, std::vector<uint32_t> examples) {
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

ShiftConfig Shift(std::string kind, double amount, int64_t groups) {
  return {.kind = std::move(kind), .groups = groups, .settings = {{"amount", amount}}};
}

class FeatureShiftTest : public ::testing::Test {
 protected:
  // Each image as it is of its client.
  std::vector<std::string> Seen(const std::vector<std::string>& images, const Shares& shares, const ShiftConfig& config,
                                const ModelInput& input, uint64_t seed = 1) {
    std::vector<std::string> records;
    for (const std::string& image : images) records.push_back(DigitExample(image, 3, "ada"));
    const auto data = ShiftFeatures(std::make_shared<MemoryDataset>(records), shares, {config, "image", input, seed});
    EXPECT_OK(data);
    std::vector<std::string> seen;
    for (int64_t i = 0; data.ok() && i < (*data)->size(); ++i) {
      std::string record;
      EXPECT_OK((*data)->Read(i, record));
      std::string_view image, writer;
      int64_t label = 0;
      EXPECT_OK(FindBytesFeature(record, "image", &image));
      EXPECT_OK(FindInt64Feature(record, "label", &label));
      EXPECT_OK(FindBytesFeature(record, "writer", &writer));
      EXPECT_EQ(label, 3);
      EXPECT_EQ(writer, "ada");
      seen.emplace_back(image);
    }
    return seen;
  }
  std::string Error(const ShiftConfig& config, const ModelInput& input) {
    const auto data = std::make_shared<MemoryDataset>(std::vector<std::string>{DigitExample("abcd", 1)});
    return testing::ErrorOf(ShiftFeatures(data, Dealt({1}, {0}), {config, "image", input, 1}));
  }
};

TEST_F(FeatureShiftTest, QuartersOfATurn_MovePixelsAndNothingElse) {
  // Clients 0 to 3 turn by 0, 90, 180 and 270 degrees, counter-clockwise; client 4 is of the first group again.
  const auto seen = Seen({"abcd", "abcd", "abcd", "abcd", "abcd"}, Dealt({1, 2, 3, 4, 5}, {4, 3, 2, 1, 0}),
                         Shift("rotation", 360, 4), Pixels({2, 2, 1}));
  EXPECT_THAT(seen, ElementsAre("abcd", "cadb", "dcba", "bdac", "abcd"));
}

TEST_F(FeatureShiftTest, OtherTurns_LieBetweenPixels) {
  // A point in the middle stays; the corners of a square turned by 45 degrees leave it, and its sides are their means.
  const std::string image = {0, 0, 0, 0, char(200), 0, 0, 0, 0};
  const auto seen = Seen({image, image}, Dealt({1, 2}, {0, 1}), Shift("rotation", 90, 2), Pixels({3, 3, 1}));
  EXPECT_EQ(seen[0], image);
  EXPECT_EQ(static_cast<uint8_t>(seen[1][4]), 200);
  EXPECT_EQ(seen[1][0], 0);
  EXPECT_EQ(seen[1][1], seen[1][3]);
  // A neighbour's source is (0.71, 0.71) away: (1 - 0.7071)^2 of the middle.
  EXPECT_EQ(seen[1][1], std::lround(200 * 0.2928932 * 0.2928932));
}

TEST_F(FeatureShiftTest, Noise_HasTheVarianceOfItsClient) {
  const std::string grey(10000, char(128));
  const auto seen = Seen({grey, grey}, Dealt({1, 2}, {0, 1}), Shift("noise", 0.01, 0), Pixels({100, 100, 1}));
  for (int client = 0; client < 2; ++client) {
    double sum = 0, squares = 0;
    for (const char c : seen[static_cast<size_t>(client)]) {
      const double x = static_cast<uint8_t>(c) / 255.0;
      sum += x;
      squares += x * x;
    }
    const double mean = sum / 10000, variance = squares / 10000 - mean * mean;
    EXPECT_NEAR(mean, 128 / 255.0, 0.004);
    EXPECT_NEAR(variance, 0.01 * (client + 1) / 2, 0.05 * 0.01);
  }
  EXPECT_EQ(Seen({grey, grey}, Dealt({1, 2}, {0, 1}), Shift("noise", 0.01, 0), Pixels({100, 100, 1})), seen);
  EXPECT_NE(Seen({grey, grey}, Dealt({1, 2}, {0, 1}), Shift("noise", 0.01, 0), Pixels({100, 100, 1}), 2), seen);
}

TEST_F(FeatureShiftTest, Brightness_GoesFromDarkToLight) {
  const auto seen = Seen({"\x80\xff", "\x80\xff", "\x80\xff"}, Dealt({1, 2, 3}, {0, 1, 2}), Shift("brightness", 0.2, 0),
                         Pixels({2, 1, 1}));
  EXPECT_THAT(seen, ElementsAre("\x4d\xcc", "\x80\xff", "\xb3\xff"));  // 51 less, none, and 51 more but for the bound
}

TEST_F(FeatureShiftTest, Colour_IsTheClientsOwnAndOfAllItsImages) {
  const std::string white(6, char(255));
  const auto seen = Seen({white, white, white}, Dealt({2, 3}, {0, 1, 2}), Shift("colour", 0.5, 0), Pixels({2, 1, 3}));
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NE(seen[0], seen[2]);
  EXPECT_EQ(seen[0].substr(0, 3), seen[0].substr(3));
  for (const char c : seen[0]) EXPECT_GE(static_cast<uint8_t>(c), 127);
}

TEST_F(FeatureShiftTest, ExampleOfNobody_StaysAsItIs) {
  const auto seen = Seen({"abcd", "abcd"}, Dealt({1}, {1}), Shift("noise", 1, 0), Pixels({2, 2, 1}));
  EXPECT_EQ(seen[0], "abcd");
  EXPECT_NE(seen[1], "abcd");
  EXPECT_THAT(Seen({"abcd", "abcd"}, Dealt({1, 2}, {1, 0}), Shift("rotation", 360, 2), Pixels({2, 2, 1})),
              ElementsAre("dcba", "abcd"));
}

TEST_F(FeatureShiftTest, Floats_ComeOutAsTheyAre) {
  ExampleBuilder example;
  example.Floats("x", std::vector<float>{0.5F, -3});
  const auto recorded =
      std::make_shared<MemoryDataset>(std::vector<std::string>{example.Serialize(), example.Serialize()});
  const ModelInput input = {"x", {DType::kFloat32, {kUnknownDim, 2}}, FeatureEncoding::kFloat};
  const ShiftConfig config = Shift("brightness", 2, 0);
  ASSERT_OK_AND_ASSIGN(const auto data, ShiftFeatures(recorded, Dealt({1, 2}, {0, 1}), {config, "x", input, 1}));
  std::string record;
  float values[2];
  ASSERT_OK(data->Read(1, record));
  ASSERT_OK(FindFloatFeature(record, "x", values));
  EXPECT_THAT(values, ElementsAre(2.5F, -1));
}

TEST_F(FeatureShiftTest, WhatCannotBeShifted_IsRefused) {
  EXPECT_THAT(Error(Shift("rotation", 90, 1), Pixels({4})), HasSubstr("turns images [height, width, channels]"));
  EXPECT_THAT(Error(Shift("colour", 0.5, 1), Pixels({2, 2, 1})), HasSubstr("is for images of red, green and blue"));
  EXPECT_THAT(Error(Shift("colour", 1.5, 1), Pixels({1, 1, 3})),
              HasSubstr("data.shift: amount must be at least 0 and at most 1, not 1.5"));
  EXPECT_THAT(Error(Shift("noise", -1, 1), Pixels({4})),
              HasSubstr("data.shift: amount must be at least 0 and at most 1000000, not -1"));
  EXPECT_THAT(Error(Shift("noise", 1, 2), Pixels({4})), HasSubstr("data.shift.groups is 2, and there are 1 clients"));
  EXPECT_THAT(Error(Shift("hue", 1, 1), Pixels({4})), HasSubstr("there is no data.shift.kind 'hue'"));
  ModelInput tokens = Pixels({4});
  tokens.encoding = FeatureEncoding::kInt64;
  EXPECT_THAT(Error(Shift("noise", 1, 1), tokens), HasSubstr("'image' holds integers"));
  const auto data = std::make_shared<MemoryDataset>(std::vector<std::string>{DigitExample("abcd", 1)});
  const ShiftConfig noise = Shift("noise", 1, 0);
  const ModelInput five = Pixels({5});
  ASSERT_OK_AND_ASSIGN(const auto shifted, ShiftFeatures(data, Dealt({1}, {0}), {noise, "image", five, 1}));
  std::string record;
  EXPECT_THAT(Message(shifted->Read(0, record)),
              ::testing::AllOf(HasSubstr("record 0"), HasSubstr("has 4 bytes, and an image of the model has 5")));
}

TEST(ShiftText, SaysWhoSeesWhat) {
  EXPECT_EQ(*ShiftText(Shift("rotation", 360, 4), 100), "rotation by 0 to 270 degrees, in 4 groups");
  EXPECT_EQ(*ShiftText(Shift("noise", 0.1, 0), 10), "noise of variance 0.01 to 0.1, one a client");
  EXPECT_EQ(*ShiftText(Shift("brightness", 0.5, 0), 10), "brightness -0.5 to +0.5, one a client");
  EXPECT_EQ(*ShiftText(Shift("colour", 0.5, 2), 10), "colour, up to 0.5 of a channel less, in 2 groups");
}

}  // namespace
}  // namespace rivulet
