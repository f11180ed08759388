// Statistics, conditions, slices and the text of tensors.
#include <cmath>
#include <limits>

#include "engine/debug/slice.h"
#include "engine/debug/statistics.h"
#include "engine/debug/tensor_text.h"
#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(StatisticsTest, CountsAndMoments_AreOfTheFiniteValues) {
  const Tensor tensor = Tensor::Of<float>({8}, {kNan, -kInf, kInf, kInf, -1, 0, 2, 5});
  const TensorStatistics s = StatisticsOf(tensor.view());
  EXPECT_EQ(s.elements, 8);
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.negative_infinite, 1);
  EXPECT_EQ(s.positive_infinite, 2);
  EXPECT_EQ(s.negative, 1);
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(s.positive, 2);
  EXPECT_EQ(s.min, -1);
  EXPECT_EQ(s.max, 5);
  EXPECT_DOUBLE_EQ(s.mean, 1.5);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(21.0 / 4));
}

TEST(StatisticsTest, EmptyAndAllNan_HaveNoExtremes) {
  EXPECT_EQ(StatisticsOf(Tensor(DType::kFloat32, {0}).view()).max, 0);
  const TensorStatistics s = StatisticsOf(Tensor::Of<float>({2}, {kNan, kNan}).view());
  EXPECT_EQ(s.finite(), 0);
  EXPECT_EQ(s.min, 0);
}

TEST(StatisticsTest, SixteenBitTypes_AreRead) {
  EXPECT_EQ(StatisticsOf(Tensor::Of<bfloat16>({2}, {bfloat16(-2), bfloat16(3)}).view()).max, 3);
  EXPECT_EQ(StatisticsOf(Tensor::Of<float16>({1}, {float16(kInf)}).view()).positive_infinite, 1);
}

TEST(WatchConditionTest, EachForm_HoldsWhereItSays) {
  const auto holds = [](std::string_view condition, std::initializer_list<float> values) {
    return WatchCondition::Parse(condition)->Holds(
        StatisticsOf(Tensor::Of<float>({static_cast<int64_t>(values.size())}, values).view()));
  };
  EXPECT_TRUE(holds("has_nan", {1, kNan}));
  EXPECT_FALSE(holds("has_nan", {1, kInf}));
  EXPECT_TRUE(holds("has_inf", {-kInf}));
  EXPECT_FALSE(holds("has_inf", {kNan}));
  EXPECT_TRUE(holds("has_inf_or_nan", {kNan}));
  EXPECT_TRUE(holds("abs > 1e3", {-1001}));
  EXPECT_FALSE(holds("abs>1e3", {1000, -1000}));
  EXPECT_TRUE(holds("abs>1e3", {-kInf}));
  EXPECT_FALSE(holds("abs>1e3", {kNan}));
  EXPECT_TRUE(holds("max>0.5", {0.75f}));
  EXPECT_FALSE(holds("max>0.5", {-3}));
  EXPECT_TRUE(holds("min<-10", {-11, 5}));
  EXPECT_FALSE(holds("abs>0", {}));
}

TEST(WatchConditionTest, OtherText_IsRefusedWithTheForms) {
  for (const char* text : {"", "nan", "abs>", "abs>x", "abs>1e3x", "max<1", "abs>nan"})
    EXPECT_THAT(WatchCondition::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has_inf_or_nan")))
        << text;
}

class SliceTest : public ::testing::Test {
 protected:
  SliceTest() : tensor_(DType::kInt32, {2, 3, 4}) {
    for (int i = 0; i < 24; ++i) tensor_.flat<int32_t>()[static_cast<size_t>(i)] = i;
  }
  std::vector<int32_t> Values(std::string_view slice, Shape* shape = nullptr) {
    StatusOr<Tensor> result = SliceOf(tensor_.view(), slice);
    EXPECT_OK(result);
    if (!result.ok()) return {};
    if (shape != nullptr) *shape = result->shape();
    const auto flat = std::as_const(*result).flat<int32_t>();
    return {flat.begin(), flat.end()};
  }
  Tensor tensor_;
};

// As NumPy on arange(24).reshape(2, 3, 4).
TEST_F(SliceTest, Slices_AreNumPys) {
  Shape shape;
  EXPECT_THAT(Values("[1, 2, 3]", &shape), ElementsAre(23));
  EXPECT_EQ(shape, Shape{});
  EXPECT_THAT(Values("[0, -1]", &shape), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(shape, (Shape{4}));
  EXPECT_THAT(Values("[1, 1:, ::2]", &shape), ElementsAre(16, 18, 20, 22));
  EXPECT_EQ(shape, (Shape{2, 2}));
  EXPECT_THAT(Values("[..., 0]", &shape), ElementsAre(0, 4, 8, 12, 16, 20));
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_THAT(Values("[0, 0, ::-1]"), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(Values("[0, 0, 2:0:-1]"), ElementsAre(2, 1));
  EXPECT_THAT(Values("[0, 0, -2:100]"), ElementsAre(2, 3));
  EXPECT_THAT(Values("[0, 5:1]", &shape), ElementsAre());
  EXPECT_EQ(shape, (Shape{0, 4}));
  EXPECT_EQ(Values("").size(), 24u);
  EXPECT_EQ(Values("[...]").size(), 24u);
}

TEST_F(SliceTest, WrongOnes_AreRefused) {
  const auto refused = [&](std::string_view slice) { return SliceOf(tensor_.view(), slice).status(); };
  EXPECT_THAT(refused("[2]"),
              StatusIs(absl::StatusCode::kOutOfRange, "index 2 is beyond axis 0, which has 2 elements"));
  EXPECT_THAT(refused("[0,0,0,0]"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names 4 axes")));
  EXPECT_THAT(refused("[::0]"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be 0")));
  for (const char* slice : {"[", "0", "[a]", "[1:2:3:4]", "[,]", "[99999999999999999999]", "[...,...]"})
    EXPECT_THAT(refused(slice), StatusIs(absl::StatusCode::kInvalidArgument)) << slice;
}

TEST(TensorTextTest, PrintsAsNumPyDoes) {
  EXPECT_EQ(TensorText(Tensor::Scalar(2.5f).view()), "2.5");
  EXPECT_EQ(TensorText(Tensor::Of<float>({2, 2}, {1, -2.5f, kNan, kInf}).view()), "[[   1 -2.5]\n [ nan  inf]]");
  EXPECT_EQ(TensorText(Tensor::Of<bool>({2}, {true, false}).view()), "[ True False]");
  EXPECT_EQ(TensorText(Tensor::Of<int32_t>({2, 1, 1}, {1, 2}).view()), "[[[1]]\n\n [[2]]]");
  EXPECT_EQ(TensorText(Tensor(DType::kFloat32, {0}).view()), "[]");
}

TEST(TensorTextTest, LargeOnes_AreSummarised) {
  Tensor tensor(DType::kInt32, {2000});
  for (int i = 0; i < 2000; ++i) tensor.flat<int32_t>()[static_cast<size_t>(i)] = i;
  EXPECT_EQ(TensorText(tensor.view()), "[   0    1    2  ... 1997 1998 1999]");
  EXPECT_GT(TensorText(tensor.view(), {.summarise_above = 0}).size(), 8000u);
}

TEST(TensorTextTest, ARange_StandsBetweenAsterisks) {
  EXPECT_EQ(TensorText(Tensor::Of<int32_t>({3}, {1, 5, 9}).view(), {.highlight = {{4, 6}}}), "[  1 *5*   9]");
}

}  // namespace
}  // namespace rivulet
