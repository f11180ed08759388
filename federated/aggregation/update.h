// One client's update, as staged: complete, and read only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

using TaskId = std::string;  // "<run_id>-r<round>-a<attempt>-<client_id>-<ordinal>": unique in a history

enum class Encoding : uint32_t { kF32 = 1 };  // little-endian float32, wire order
using Scalars = std::map<std::string, double>;

struct PartView {
  std::string_view name;  // "delta"
  Encoding encoding = Encoding::kF32;
  std::span<const std::byte> data;
  int64_t weight = 0;  // in units of 2^-weight_fraction_bits: 1 .. AggregationSpec::weight_bound()
};

struct UpdateView {
  TaskId task;
  std::span<const PartView> parts;
  const Scalars& scalars;
};

}  // namespace rivulet
