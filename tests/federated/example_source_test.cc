#include "federated/plan/example_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/data/example.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDataset;

FeatureSpec Pixels(double scale = 1.0 / 255) {
  return {"image", "x", FeatureSpec::Encoding::kUint8, Shape{2, 2}, scale, 0};
}
FeatureSpec Label(int64_t upper_bound = 10) {
  return {"label", "y", FeatureSpec::Encoding::kInt64, Shape{}, 1, upper_bound};
}
FeatureSpec Floats(double scale = 1) { return {"weights", "w", FeatureSpec::Encoding::kFloat, Shape{3}, scale, 0}; }

std::string FloatExample(std::vector<float> values) {
  proto::Example example;
  auto& list = *(*example.mutable_features()->mutable_feature())["weights"].mutable_float_list();
  for (const float value : values) list.add_value(value);
  return example.SerializeAsString();
}

// Decodes `rows` of `records` and returns the feeds.
struct Decoded {
  std::vector<Tensor> feeds;
  Status status;
};
Decoded Decode(const std::vector<FeatureSpec>& features, std::vector<std::string> records, std::vector<uint32_t> rows,
               std::optional<std::span<const uint32_t>> share = std::nullopt) {
  Decoded decoded;
  const auto decoder = ExampleDecoder::Create(features);
  decoded.status = decoder.status();
  if (!decoder.ok()) return decoded;
  std::vector<TensorView> views;
  for (const FeedSpec& feed : (*decoder)->FeedSpecs(static_cast<int64_t>(rows.size()))) {
    views.push_back(decoded.feeds.emplace_back(feed.spec.dtype, feed.spec.shape).view());
  }
  const DatasetExamples examples(std::make_shared<MemoryDataset>(std::move(records)), share, *decoder);
  decoded.status = examples.Decode(rows, views);
  return decoded;
}

TEST(ExampleSourceTest, BytesAndLabels_FillRowsInTheAskedOrder) {
  const Decoded decoded =
      Decode({Pixels(), Label()},
             {DigitExample(std::string("\0\x01\x80\xff", 4), 3), DigitExample("\x02\x02\x02\x02", 9)}, {1, 0, 1});
  ASSERT_OK(decoded.status);
  const auto pixels = decoded.feeds[0].flat<float>();
  EXPECT_EQ(decoded.feeds[0].shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(pixels[0], 2 / 255.0f);
  EXPECT_EQ(pixels[4], 0);
  EXPECT_EQ(pixels[5], 1 / 255.0f);
  EXPECT_EQ(pixels[6], 128 / 255.0f);
  EXPECT_EQ(pixels[7], 1);
  EXPECT_THAT(decoded.feeds[1].flat<int64_t>(), ElementsAre(9, 3, 9));
}

// Also of widths that no vector has, and by a factor that float32 cannot hold.
TEST(ExampleSourceTest, EveryByte_IsMultipliedInDoubleAndRoundedOnce) {
  for (const int64_t width : {1, 3, 7, 16, 37, 256}) {
    for (const double scale : {1.0 / 255, 1.0, -0.1, 3e300}) {
      std::string bytes;
      for (int64_t i = 0; i < width; ++i) bytes += static_cast<char>(255 - i * 256 / width);
      FeatureSpec spec = Pixels(scale);
      spec.shape = Shape{width};
      const Decoded decoded = Decode({spec}, {DigitExample(bytes, 0), DigitExample(bytes, 1)}, {0, 1});
      ASSERT_OK(decoded.status);
      const auto fed = decoded.feeds[0].flat<float>();
      for (int64_t i = 0; i < 2 * width; ++i) {
        const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i % width)]);
        EXPECT_EQ(fed[static_cast<size_t>(i)], static_cast<float>(byte * scale)) << width << " " << scale << " " << i;
      }
    }
  }
}

TEST(ExampleSourceTest, BytesScaledToDenormals_AreRefused) {
  EXPECT_THAT(Decode({Pixels(1e-39)}, {}, {}).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below the least of float32's")));
}

TEST(ExampleSourceTest, Share_CountsFromItsOwnZero) {
  const std::vector<uint32_t> share = {2, 0};
  const Decoded decoded =
      Decode({Label()}, {DigitExample("", 0), DigitExample("", 1), DigitExample("", 2)}, {0, 1}, share);
  ASSERT_OK(decoded.status);
  EXPECT_THAT(decoded.feeds[0].flat<int64_t>(), ElementsAre(2, 0));
}

TEST(ExampleSourceTest, Floats_AreScaledOnce) {
  const Decoded decoded = Decode({Floats(0.5)}, {FloatExample({1, -2, 0.25f})}, {0});
  ASSERT_OK(decoded.status);
  EXPECT_THAT(decoded.feeds[0].flat<float>(), ElementsAre(0.5f, -1.0f, 0.125f));
}

TEST(ExampleSourceTest, LabelWithoutBound_MayBeAnything) {
  const Decoded decoded = Decode({Label(0)}, {DigitExample("", -5)}, {0});
  ASSERT_OK(decoded.status);
  EXPECT_THAT(decoded.feeds[0].flat<int64_t>(), ElementsAre(-5));
}

TEST(ExampleSourceTest, LabelAtItsBound_IsRefusedByRecord) {
  const Decoded decoded = Decode({Label(4)}, {DigitExample("", 3), DigitExample("", 4)}, {0, 1});
  EXPECT_THAT(decoded.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                       ::testing::AllOf(HasSubstr("memory.tfrecord: record 1 at byte"),
                                                        HasSubstr("'label' is 4, but the model has classes 0 to 3"))));
}

TEST(ExampleSourceTest, WrongNumberOfBytes_NamesBoth) {
  const Decoded decoded = Decode({Pixels()}, {DigitExample("abcde", 3)}, {0});
  EXPECT_THAT(decoded.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("'image' has 5 bytes, but the model takes 4 ([2,2])")));
}

TEST(ExampleSourceTest, WrongNumberOfFloats_IsRefused) {
  const Decoded decoded = Decode({Floats()}, {FloatExample({1, 2})}, {0});
  EXPECT_THAT(decoded.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weights")));
}

TEST(ExampleSourceTest, FeatureMissingOrOfAnotherKind_IsRefusedByName) {
  EXPECT_THAT(Message(Decode({Floats()}, {DigitExample("abcd", 3)}, {0}).status), HasSubstr("weights"));
  FeatureSpec wrong = Pixels();
  wrong.feature = "label";
  EXPECT_THAT(Message(Decode({wrong}, {DigitExample("abcd", 3)}, {0}).status), HasSubstr("label"));
}

TEST(ExampleSourceTest, IndexBeyondTheShare_IsRefused) {
  EXPECT_THAT(Decode({Label()}, {DigitExample("", 1)}, {1}).status, StatusIs(absl::StatusCode::kOutOfRange));
  const std::vector<uint32_t> share = {0};
  EXPECT_THAT(Decode({Label()}, {DigitExample("", 1), DigitExample("", 2)}, {1}, share).status,
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(ExampleSourceTest, ScaledIntegers_AreRefusedAtOnce) {
  FeatureSpec scaled = Label();
  scaled.scale = 0.5;
  EXPECT_THAT(ExampleDecoder::Create(std::vector{scaled}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ExampleSourceTest, IntegersOfAText_FillTheirRow) {
  const FeatureSpec tokens = {"tokens", "x", FeatureSpec::Encoding::kInt64, Shape{3}, 1, 90};
  const auto decoder = ExampleDecoder::Create(std::vector{tokens});
  ASSERT_OK(decoder);
  const auto feeds = (*decoder)->FeedSpecs(2);
  EXPECT_EQ(feeds[0].spec, (TensorSpec{DType::kInt64, Shape{2, 3}}));
  Tensor batch(DType::kInt64, Shape{2, 3});
  const TensorView views[] = {batch.view()};
  const auto decode = [&](std::vector<int64_t> values) {
    return (*decoder)->Decode(ExampleBuilder().Int64s("tokens", values).Serialize(), 1, views);
  };
  ASSERT_OK(decode({7, 0, 89}));
  EXPECT_EQ(testing::Values<int64_t>(batch), (std::vector<int64_t>{0, 0, 0, 7, 0, 89}));
  EXPECT_EQ(Message(decode({7, 90, 1})), "feature 'tokens' is 90 at 1, but the model has classes 0 to 89");
  EXPECT_EQ(Message(decode({7, -1, 1})), "feature 'tokens' is -1 at 1, but the model has classes 0 to 89");
  EXPECT_EQ(Message(decode({7, 1})), "feature 'tokens' has 2 int64 values, but 3 are wanted");
}

TEST(ExampleSourceTest, ImageOfAnotherShape_IsTakenAsTheModelSays) {
  FeatureSpec colour = Pixels(1);
  colour.shape = Shape{1, 2, 3};
  const auto decoder = ExampleDecoder::Create(std::vector{colour});
  ASSERT_OK(decoder);
  Tensor batch((*decoder)->FeedSpecs(1)[0].spec.dtype, (*decoder)->FeedSpecs(1)[0].spec.shape);
  EXPECT_EQ(batch.shape(), (Shape{1, 1, 2, 3}));
  const TensorView views[] = {batch.view()};
  ASSERT_OK((*decoder)->Decode(ExampleBuilder().Bytes("image", "abcdef").Serialize(), 0, views));
  EXPECT_EQ(batch.flat<float>()[5], 102.0f);
}

}  // namespace
}  // namespace rivulet
