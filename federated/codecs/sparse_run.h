// A run of mostly zero values, as a view of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rivulet {

// `count` values of wire order with their places, little-endian and of any alignment: ascending u32 indices, and
// float32 values. All other values are zero.
struct SparseRun {
  const std::byte* indices = nullptr;
  const std::byte* values = nullptr;
  int64_t count = 0;

  int64_t index(int64_t i) const {
    uint32_t index = 0;
    std::memcpy(&index, indices + static_cast<size_t>(i) * sizeof(index), sizeof(index));
    return index;
  }
  float value(int64_t i) const {
    float value = 0;
    std::memcpy(&value, values + static_cast<size_t>(i) * sizeof(value), sizeof(value));
    return value;
  }
};

}  // namespace rivulet
