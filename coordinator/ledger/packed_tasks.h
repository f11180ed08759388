// Packed tasks of a closed attempt until their rows are written: bytes that need a fifth of the memory of the values. A
// second of rounds of a thousand small tasks each is 60 MB of values. The system takes longer to provide that memory
// than this file to pack the rows.
//
// A pure value. It is never written anywhere, so its format may change.
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
  // The original tasks of the attempt that was packed.
  std::vector<ClosedAttempt::ClosedTask> Unpack(const ClosedAttempt& attempt) const;
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t bytes() const { return bytes_.size(); }

 private:
  size_t count_ = 0;
  std::string bytes_;
};

}  // namespace rivulet
