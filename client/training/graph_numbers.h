// Numbers of a task that a plan's graphs read and write: one buffer, as BufferTable lays it out.
#pragma once

#include <cstdint>

#include "client/training/buffer_table.h"
#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A view of a trainer's buffer of them, which must outlive it.
class GraphNumbers {
 public:
  GraphNumbers(const Plan& plan, const BufferTable& table, std::byte* buffer)
      : plan_(plan), table_(table), numbers_(reinterpret_cast<double*>(buffer)) {}

  void SetRound(uint64_t round) { numbers_[BufferTable::kRound] = static_cast<double>(round); }
  void SetSteps(uint64_t steps) { numbers_[BufferTable::kSteps] = static_cast<double>(steps); }
  // As a task begins: its round, what it brings in numbers, which an update declares too, as it may count by it, and 0
  // for what passes and graphs have yet to say. INVALID_ARGUMENT: a number that the plan reads is missing or none.
  Status Begin(const Task& task, Scalars& declared);
  // What passes have reported so far, for the graphs that read it.
  void Tell(const Scalars& declared);
  // What graphs have left to be declared with an update.
  void Declare(const Task& task, Scalars& declared) const;

 private:
  const Plan& plan_;
  const BufferTable& table_;
  double* const numbers_;
};

}  // namespace rivulet
