// Numbers of a task that a plan's graphs read and write: one buffer, as BufferTable lays it out.
#pragma once

#include <cstdint>

#include "client/training/buffer_table.h"
#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A view of a trainer's buffer of numbers, which must outlive it.
class GraphNumbers {
 public:
  GraphNumbers(const Plan& plan, const BufferTable& table, std::byte* buffer)
      : plan_(plan), table_(table), numbers_(reinterpret_cast<double*>(buffer)) {}

  void SetRound(uint64_t round) { numbers_[BufferTable::kRound] = static_cast<double>(round); }
  void SetSteps(uint64_t steps) { numbers_[BufferTable::kSteps] = static_cast<double>(steps); }
  // Sets a task's begin: its round, its numbers, which an update also declares because its weight may depend on them,
  // and 0 for later measures and declarations. INVALID_ARGUMENT: a number that the plan reads is missing or not finite.
  Status Begin(const Task& task, Scalars& declared);
  // Sets the passes' measures so far, for graphs that read them.
  void Tell(const Scalars& declared);
  // Adds the graphs' declared numbers to the update's.
  void Declare(const Task& task, Scalars& declared) const;

 private:
  const Plan& plan_;
  const BufferTable& table_;
  double* const numbers_;
};

}  // namespace rivulet
