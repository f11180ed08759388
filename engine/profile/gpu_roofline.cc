#include "engine/profile/gpu_roofline.h"

#include <algorithm>
#include <functional>

#include "engine/kernels/cuda/roofline.h"
#include "engine/profile/gpu_timer.h"

namespace rivulet {
namespace {

// A block's threads are few; this many blocks of them fill a multiprocessor.
constexpr int kBlocksOfMultiprocessor = 8;

struct Sizes {
  std::vector<size_t> footprints;
  int rounds;
};

// Emulated devices have no compute capability.
Sizes SizesFor(const GpuDevice& device) {
  if (device.properties().compute_major == 0) return {{size_t{16} << 10, size_t{64} << 10}, 4};
  Sizes sizes{{}, 4096};
  for (const size_t megabytes : {1, 4, 16, 64, 512}) {
    const size_t bytes = megabytes << 20;
    if (bytes <= device.bytes_available() / 4) sizes.footprints.push_back(bytes);
  }
  if (sizes.footprints.empty()) sizes.footprints.push_back(size_t{64} << 10);
  return sizes;
}

StatusOr<double> FlopsPerSecond(GpuDevice& device, GpuTimer& timer, int rounds) {
  gpu::RooflineMultiplyAddArguments arguments{};
  arguments.blocks = device.properties().multiprocessors * kBlocksOfMultiprocessor;
  arguments.rounds = rounds;
  arguments.factor = 0.5f;  // the numbers stay where they are normal
  arguments.summand = 1;
  const int64_t threads = int64_t{arguments.blocks} * gpu::kRooflineThreads;
  RIVULET_ASSIGN_OR_RETURN(const GpuMemory y,
                           device.Allocate(static_cast<size_t>(threads) * sizeof(float), "a roofline"));
  arguments.y = reinterpret_cast<float*>(y.data());
  RIVULET_ASSIGN_OR_RETURN(const GpuTiming timing, timer.Measure([&](GpuStream& stream) {
    return stream.Launch("roofline_multiply_add", arguments);
  }));
  return 2.0 * gpu::kRooflineChains * rounds * static_cast<double>(threads) / timing.least_seconds;
}

// Read and written together are the footprint.
StatusOr<double> BytesPerSecond(GpuDevice& device, GpuTimer& timer, size_t footprint) {
  RIVULET_ASSIGN_OR_RETURN(const GpuMemory memory, device.Allocate(footprint, "a roofline"));
  RIVULET_RETURN_IF_ERROR(timer.stream().Fill(memory.data(), 0, footprint));
  const gpu::RooflineCopyArguments arguments{memory.data(), memory.data() + footprint / 2,
                                             static_cast<int64_t>(footprint / 2 / 16)};
  RIVULET_ASSIGN_OR_RETURN(const GpuTiming timing,
                           timer.Measure([&](GpuStream& stream) { return stream.Launch("roofline_copy", arguments); }));
  return static_cast<double>(footprint) / timing.least_seconds;
}

}  // namespace

StatusOr<Roofline> MeasureGpuRoofline(GpuDevice& device) {
  RIVULET_ASSIGN_OR_RETURN(GpuTimer timer, GpuTimer::Create(device));
  const Sizes sizes = SizesFor(device);
  Roofline roofline;
  roofline.threads = 0;
  RIVULET_ASSIGN_OR_RETURN(roofline.flops_per_second, FlopsPerSecond(device, timer, sizes.rounds));
  for (const size_t footprint : sizes.footprints) {
    RIVULET_ASSIGN_OR_RETURN(const double rate, BytesPerSecond(device, timer, footprint));
    roofline.bandwidths.push_back({static_cast<double>(footprint), rate});
  }
  // A small copy is mostly its launch, and no smaller one can be faster than the fastest that was seen beyond it.
  for (size_t i = roofline.bandwidths.size() - 1; i-- > 0;) {
    double& nearer = roofline.bandwidths[i].bytes_per_second;
    nearer = std::max(nearer, roofline.bandwidths[i + 1].bytes_per_second);
  }
  return roofline;
}

}  // namespace rivulet
