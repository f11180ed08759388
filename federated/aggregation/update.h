// One client's update where it lies, as staged or as trained: complete, and read only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "federated/tasks/task.h"

namespace rivulet {

enum class Encoding : uint32_t { kF32 = 1 };  // little-endian float32, wire order

// `count` values of wire order in one stretch of memory, of any alignment: values[i], or values[i] − minus[i] rounded
// once to float32. A difference is taken on the thread that trained, whose floating-point modes the plan's own
// subtraction would have had.
struct FloatRun {
  const float* values = nullptr;
  const float* minus = nullptr;  // null: the values themselves
  int64_t count = 0;
};

struct PartView {
  std::string_view name;  // "delta"
  Encoding encoding = Encoding::kF32;
  std::span<const std::byte> data;
  int64_t weight = 0;  // in units of 2^-weight_fraction_bits: 1 .. AggregationSpec::weight_bound()
  // Instead of `data`: what a trainer leaves in its memory, a run a slice, padding left out.
  std::span<const FloatRun> runs = {};
};

struct UpdateView {
  TaskId task;
  std::span<const PartView> parts;
  const Scalars& scalars;
};

}  // namespace rivulet
