// Kernels at the limits of their inputs.
#include <gmock/gmock.h>

#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

TEST(Pow, IntegerToANegativePower_IsRefused) {
  const Tensor base = Tensor::Of<int32_t>({3}, {2, 3, -2});
  const auto powers = RunOp("Pow", {base, Tensor::Of<int32_t>({3}, {0, 4, 3})});
  ASSERT_OK(powers);
  EXPECT_THAT(powers->outputs[0].flat<int32_t>(), ::testing::ElementsAre(1, 81, -8));
  EXPECT_THAT(RunOp("Pow", {base, Tensor::Of<int32_t>({3}, {0, -1, 3})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("raised to the negative power -1")));
}

// Where a position of the result lies in the source is computed in float, which at millions of positions rounds the
// last of them to behind the last pixel.
TEST(ResizeNearestNeighbor, PositionThatRoundsBeyondTheLastPixel_TakesTheLast) {
  constexpr int64_t kWidth = 4'535'839;
  const Tensor image = Tensor::Of<float>({1, 1, 9, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const AttrMap attrs = {{"align_corners", false}, {"half_pixel_centers", true}};
  const Tensor sizes = Tensor::Of<int32_t>({2}, {1, static_cast<int32_t>(kWidth)});
  const auto run = RunOp("ResizeNearestNeighbor", {image, sizes}, attrs, {}, {1});
  ASSERT_OK(run);
  ASSERT_EQ(run->outputs[0].elements(), kWidth);
  EXPECT_EQ(run->outputs[0].flat<float>().back(), 8);
}

}  // namespace
}  // namespace rivulet::testing
