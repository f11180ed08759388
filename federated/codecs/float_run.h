// A run of values in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace rivulet {

// `count` values of wire order in contiguous memory of any alignment: values[i], or values[i] − minus[i] rounded once
// to float32, and then times `factor`, rounded again. Differences are taken on the thread that trained, so that they
// use the floating-point modes with which the plan's own subtraction would run.
struct FloatRun {
  const float* values = nullptr;
  const float* minus = nullptr;  // null: nothing is subtracted
  int64_t count = 0;
  float factor = 1;  // from clipping; 1: the values are not multiplied
};

// Calls body(value) for all values of `runs`, in wire order.
template <typename Body>
void EachValue(std::span<const FloatRun> runs, const Body& body) {
  for (const FloatRun& run : runs) {
    const auto each = [&](const auto& scaled) {
      if (run.minus == nullptr) {
        for (int64_t i = 0; i < run.count; ++i) body(scaled(run.values[i]));
      } else {
        for (int64_t i = 0; i < run.count; ++i) body(scaled(run.values[i] - run.minus[i]));
      }
    };
    if (run.factor == 1) {
      each([](float value) { return value; });
    } else {
      each([factor = run.factor](float value) { return value * factor; });
    }
  }
}

// Copies `count` values, starting at index `first`. Blocks have a fixed length, which compilers vectorise.
inline void CopyValues(const FloatRun& run, int64_t first, int64_t count, float* __restrict to) {
  const float* const values = run.values + first;
  if (run.minus == nullptr) {
    std::copy_n(values, count, to);
  } else {
    const float* const minus = run.minus + first;
    constexpr int64_t kBlock = 16;
    int64_t i = 0;
    for (; i + kBlock <= count; i += kBlock) {
      for (int64_t k = 0; k < kBlock; ++k) to[i + k] = values[i + k] - minus[i + k];
    }
    for (; i < count; ++i) to[i] = values[i] - minus[i];
  }
  if (run.factor == 1) return;
  for (int64_t i = 0; i < count; ++i) to[i] *= run.factor;
}

}  // namespace rivulet
