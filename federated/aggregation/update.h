// One task's update for aggregation: views of its named parts in a staging buffer or the trainer's memory, complete and
// read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "federated/aggregation/device_part.h"
#include "federated/codecs/float_run.h"
#include "federated/tasks/task.h"

namespace rivulet {

// A part that is computed block by block while it is read, and so is never in memory as a whole. Computing it again
// gives the same values.
class MadePart {
 public:
  virtual ~MadePart() = default;
  virtual int64_t elements() const = 0;
  virtual size_t blocks() const = 0;  // in wire order; equal for parts that were trained together
  // The run is valid until the next block of this part, or of another trained with it, is made.
  virtual FloatRun Make(size_t block) const = 0;
};

struct PartView {
  std::string_view name;                 // "delta"
  std::span<const std::byte> data = {};  // encoded by the part's codec, of any alignment
  // Instead of `data`, if the codec is transparent: the values in the trainer's memory, one run per slice, without
  // padding.
  std::span<const FloatRun> runs = {};
  const MadePart* made = nullptr;           // or this, if the codec is transparent
  const DevicePart* device_part = nullptr;  // or this
  int32_t number = 0;                       // this update's number in `device_part`
};

struct UpdateView {
  TaskId task;
  int64_t base_version;  // from which its training started
  std::span<const PartView> parts;
  const Scalars& scalars;  // declared by the client
};

// The weight of each part's values and of each scalar, in units of 2^-weight_fraction_bits: 1 to AggregationSpec::
// weight_bound. In the order of AggregationSpec::parts and ::scalars; the weight of an absent optional part is
// ignored.
struct Weights {
  std::vector<int64_t> parts;
  std::vector<int64_t> scalars = {};
};

}  // namespace rivulet
