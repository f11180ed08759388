// The tasks of a closed attempt while they wait for their rows: as bytes, in a fifth of the memory that they take as
// values. A second of rounds of a thousand small tasks each is 60 MB of these, and a round's fresh memory takes longer
// to be had from the system than its rows to be packed.
//
// A pure value. Never written anywhere: how it is made may change.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/ledger/ledger.h"

namespace rivulet {

class PackedTasks {
 public:
  PackedTasks() = default;
  explicit PackedTasks(const ClosedAttempt& attempt);  // of its tasks
  // As they were, of the attempt that they were taken from.
  std::vector<ClosedAttempt::ClosedTask> Unpack(const ClosedAttempt& attempt) const;
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t bytes() const { return bytes_.size(); }

 private:
  size_t count_ = 0;
  std::string bytes_;
};

}  // namespace rivulet
