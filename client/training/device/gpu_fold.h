// Fold of the lanes' updates on a device (engine/kernels/cuda/fold.h). Only sums of integers come to the host, with the
// bits of federated/aggregation/fixed_point.h. Norms are the same in every run and may differ from the host's in the
// last bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/gpu/gpu_device.h"
#include "engine/kernels/cuda/fold.h"
#include "engine/program/gpu_kernel.h"
#include "engine/program/lane_regions.h"
#include "federated/aggregation/device_part.h"
#include "federated/aggregation/fixed_point.h"

namespace rivulet {

// A run of a part, for all lanes, like FloatRun for one update.
struct GpuRun {
  GpuOperand values;
  const std::byte* minus = nullptr;  // the same for all lanes; null: none
  int64_t count = 0;
};

// Changes to values before they are checked and added.
struct GpuFoldForm {
  const double* factors = nullptr;  // on the device, by lane (engine/kernels/cuda/clip.h); null: none
  gpu::FoldCodec codec = gpu::FoldCodec::kFloat32;
};

// Fold on a device; keeps its memory. Not thread-safe.
class GpuFold {
 public:
  explicit GpuFold(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {}

  size_t bytes() const { return device_memory_.size(); }  // its present memory

  // As DevicePart's, for `lanes`, whose values in wire order are `runs`. Waits for the stream.
  StatusOr<std::vector<DevicePart::Folded>> Fold(GpuStream& stream, std::span<const GpuRun> runs,
                                                 const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                 std::span<const double> scales, int value_bits, int sign,
                                                 std::span<int64_t> sums, std::span<FoldState> states);
  StatusOr<std::vector<DevicePart::Folded>> Fold(GpuStream& stream, std::span<const GpuRun> runs,
                                                 const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                 std::span<const double> scales, int value_bits, int sign,
                                                 std::span<int32_t> sums, std::span<FoldState> states);

  // The same, but into sums that begin at 0 and stay on the device, of 64 bits or of 32, at sums_there() until the next
  // fold; without lanes they are 0. Waits for the stream.
  StatusOr<std::vector<DevicePart::Folded>> FoldThere(GpuStream& stream, std::span<const GpuRun> runs,
                                                      const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                      std::span<const double> scales, int value_bits, int sign,
                                                      bool narrow, std::span<FoldState> states);
  std::byte* sums_there() const { return OnDevice<std::byte>(kSums); }
  // Adds the sums there, written by any code, to `sums`, one for each value of the runs. Waits for the stream.
  Status AddSums(GpuStream& stream, std::span<int64_t> sums);
  Status AddSums(GpuStream& stream, std::span<int32_t> sums);

 private:
  enum Region : size_t { kSums, kScales, kIds, kTallies, kTotals, kRegions };
  template <typename Sum>
  StatusOr<std::vector<DevicePart::Folded>> FoldInto(GpuStream& stream, std::span<const GpuRun> runs,
                                                     const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                     std::span<const double> scales, int value_bits, int sign,
                                                     std::span<Sum> sums, std::span<FoldState> states);
  // Leaves the sums on the device and, with `bring`, copies them to host memory too.
  template <typename Sum>
  StatusOr<std::vector<DevicePart::Folded>> FoldOnDevice(GpuStream& stream, std::span<const GpuRun> runs,
                                                         const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                         std::span<const double> scales, int value_bits, int sign,
                                                         bool bring, std::span<FoldState> states);
  template <typename Sum>
  Status BringAndAdd(GpuStream& stream, std::span<Sum> sums);
  template <typename Sum>
  void AddBrought(std::span<Sum> sums) const;
  // Launches the kernels for the lanes of kIds; without tallies if `blocks` is 0.
  template <typename Sum>
  Status Launch(GpuStream& stream, std::span<const GpuRun> runs, const GpuFoldForm& form, size_t lanes, int value_bits,
                int sign, int64_t blocks);
  Status Reserve(size_t lanes, size_t sum_bytes, int64_t blocks);
  Status BringLanes(GpuStream& stream, std::span<const int32_t> lanes, std::span<const double> scales);
  // The value as it was checked.
  StatusOr<float> ValueAt(GpuStream& stream, std::span<const GpuRun> runs, const GpuFoldForm& form, int32_t lane,
                          int64_t index);
  template <typename T>
  T* OnDevice(Region region) const {
    return reinterpret_cast<T*>(device_memory_.data() + on_device_.shared_offset(region));
  }
  template <typename T>
  T* OnHost(Region region) const {
    return reinterpret_cast<T*>(host_memory_.data() + on_host_.shared_offset(region));
  }

  const std::shared_ptr<GpuDevice> device_;
  LaneRegions on_device_, on_host_;
  GpuMemory device_memory_;
  PinnedMemory host_memory_;
};

}  // namespace rivulet
