// Table of a plan's buffers by the names of flat variables, in the order in which a trainer binds them. The buffers
// "params" and "base_params" are whole arenas, each with its shared variables in it; the others are as long as the
// trained part. The buffer "scalars" has the numbers of a task: "round", "steps", then "scalars/0", "scalars/1", ….
// After them come "numbers/NAME", "measured/NAME" and "declared/NAME" in the order of FlatNames. The last buffers are
// the variables of a base, one each: programs read them where the base's file is mapped.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "federated/plan/plan.h"

namespace rivulet {

class BufferTable {
 public:
  static constexpr int kParams = 0, kGrads = 1, kBaseParams = 2, kScalars = 3;
  explicit BufferTable(const Plan& plan);

  int size() const { return static_cast<int>(names_.size()); }
  // The index of a flat variable's buffer, or of "scalars"; the plan must have it.
  int index(std::string_view name) const;
  int broadcast(size_t i) const { return first_broadcast_ + static_cast<int>(i); }  // of FlatNames::broadcast
  int base(size_t i) const { return first_base_ + static_cast<int>(i); }            // of ModelLayout::base_variables
  bool is_base(int buffer) const { return buffer >= first_base_; }
  size_t bytes(int buffer) const { return bytes_[static_cast<size_t>(buffer)]; }
  // Whether it is bound to borrowed, read-only memory: "base_params", "broadcast/…", a base's variables.
  bool borrowed(int buffer) const { return buffer == kBaseParams || buffer >= first_broadcast_; }

  // Offsets in "scalars", in numbers.
  static constexpr size_t kRound = 0, kSteps = 8;
  size_t number(size_t i) const;                                              // of FlatNames::numbers
  size_t measured(size_t i) const { return number(numbers_.size() + i); }     // of FlatNames::measured
  size_t declared(size_t i) const { return measured(measured_.size() + i); }  // of FlatNames::declared

  // Buffer and offset of a flat variable whose name FlatSpec has accepted.
  std::pair<int, size_t> PlaceOf(std::string_view flat) const;

 private:
  const std::shared_ptr<const ModelLayout> layout_;
  const size_t scalars_;
  const std::vector<std::string> numbers_, measured_, declared_;
  std::vector<std::string> names_;
  std::vector<size_t> bytes_;
  int first_broadcast_ = 0, first_base_ = 0;
};

}  // namespace rivulet
