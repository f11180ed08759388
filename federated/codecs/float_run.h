// A run of values in memory.
#pragma once

#include <cstdint>
#include <span>

namespace rivulet {

// `count` values of wire order in one stretch of memory, of any alignment: values[i], or values[i] − minus[i] rounded
// once to float32. A difference is taken on the thread that trained, whose floating-point modes the plan's own
// subtraction would have had.
struct FloatRun {
  const float* values = nullptr;
  const float* minus = nullptr;  // null: the values themselves
  int64_t count = 0;
};

// Calls body(value) for all values of `runs`, in wire order.
template <typename Body>
void EachValue(std::span<const FloatRun> runs, const Body& body) {
  for (const FloatRun& run : runs) {
    if (run.minus == nullptr) {
      for (int64_t i = 0; i < run.count; ++i) body(run.values[i]);
    } else {
      for (int64_t i = 0; i < run.count; ++i) body(run.values[i] - run.minus[i]);
    }
  }
}

}  // namespace rivulet
