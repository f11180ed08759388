// Part of updates on a GPU, with sums that stay there so that a team of devices can add them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/gpu/gpu_device.h"
#include "federated/aggregation/device_part.h"

namespace rivulet {

class GpuDevicePart : public DevicePart {
 public:
  // The stream of the folds.
  virtual GpuStream& stream() const = 0;
  // As Fold, but into sums that begin at 0 and stay on the device, of 64 bits or of 32, until the next fold; without
  // updates they are 0. Waits for the stream.
  virtual StatusOr<std::vector<Folded>> FoldThere(std::span<const int32_t> updates, std::span<const double> scales,
                                                  int value_bits, int sign, bool narrow,
                                                  std::span<FoldState> states) const = 0;
  virtual std::byte* sums_there() const = 0;  // of the last FoldThere
  // Adds them to `sums`, one for each element. Waits for the stream.
  virtual Status AddSums(std::span<int64_t> sums) const = 0;
  virtual Status AddSums(std::span<int32_t> sums) const = 0;
};

}  // namespace rivulet
