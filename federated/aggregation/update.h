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

// A part that is made while it is read, a block after the other, and so never lies in memory whole. Made again it is
// the same.
class MadePart {
 public:
  virtual ~MadePart() = default;
  virtual int64_t elements() const = 0;
  virtual size_t blocks() const = 0;  // in wire order; parts that were trained together have equal ones
  // Valid until the next block is made, of this part or of another that was trained with it.
  virtual FloatRun Make(size_t block) const = 0;
};

struct PartView {
  std::string_view name;                 // "delta"
  std::span<const std::byte> data = {};  // as the part's codec makes it, of any alignment
  // Instead of `data`, where the codec is transparent: what a trainer leaves in its memory, a run a slice, padding left
  // out.
  std::span<const FloatRun> runs = {};
  const MadePart* made = nullptr;           // or, in the same case
  const DevicePart* device_part = nullptr;  // or
  int32_t number = 0;                       // of this update among those that lie there
};

struct UpdateView {
  TaskId task;
  int64_t base_version;  // that its training started from
  std::span<const PartView> parts;
  const Scalars& scalars;  // what the client declared
};

// What each part's values count, and each scalar, in units of 2^-weight_fraction_bits: 1 to AggregationSpec::
// weight_bound. In order of AggregationSpec::parts and ::scalars; that of an optional part which is absent means
// nothing.
struct Weights {
  std::vector<int64_t> parts;
  std::vector<int64_t> scalars = {};
};

}  // namespace rivulet
