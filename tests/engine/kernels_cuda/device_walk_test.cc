#include "engine/kernels/cuda/device_walk.h"

#include "tests/testing/status_matchers.h"

namespace rivulet::gpu {
namespace {

using ::rivulet::testing::StatusIs;

// `axes` of two elements each, whose strides no merging would join.
StridedWalk<2> WalkOf(int axes) {
  StridedWalk<2> host;
  host.axes = axes;
  host.dims.fill(2);
  for (size_t axis = 0; axis < host.dims.size(); ++axis) {
    host.strides[0][axis] = int64_t{1} << (2 * axis);
    host.strides[1][axis] = int64_t{3} << axis;
  }
  host.offsets = {1000, 2000};
  return host;
}

TEST(DeviceWalkTest, AsManyAxesAsItHas_GoWhereTheHostGoes) {
  const StridedWalk<2> host = WalkOf(Walk<2>::kMaxAxes);
  const auto device = DeviceWalk(host);
  ASSERT_OK(device);
  uint32_t place = 0;
  host.ForEachRow([&](const auto& first, const auto& strides, int64_t length) {
    for (int64_t i = 0; i < length; ++i, ++place) {
      int64_t at[2];
      device->At(place, at);
      for (size_t o = 0; o < 2; ++o) ASSERT_EQ(at[o], first[o] + i * strides[o]) << place;
    }
  });
  EXPECT_EQ(place, 1u << Walk<2>::kMaxAxes);
}

TEST(DeviceWalkTest, MoreAxesThanItHas_IsRefused) {
  EXPECT_THAT(DeviceWalk(WalkOf(Walk<2>::kMaxAxes + 1)), StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace rivulet::gpu
