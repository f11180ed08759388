// Serialization of tasks and their outcomes between ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "federated/tasks/task_failure.h"
#include "federated/transport/coordinator_api.h"
#include "simulations/launchers/packed.h"

namespace rivulet {

void Put(Packer& to, const BlobId& blob);
BlobId TakeBlob(Unpacker& from);
void Put(Packer& to, const Task& task);
Task TakeTask(Unpacker& from);
// Includes its message: both processes belong to the simulation.
void Put(Packer& to, const TaskFailure& failure);
TaskFailure TakeFailure(Unpacker& from);

template <typename T>
void PutAll(Packer& to, const std::vector<T>& values) {
  to.Number(values.size());
  for (const T& value : values) Put(to, value);
}
template <typename Take>
auto TakeAll(Unpacker& from, const Take& take) {
  std::vector<decltype(take(from))> values;
  for (size_t left = from.Number<size_t>(); left > 0 && from.ok(); --left) values.push_back(take(from));
  return values;
}

}  // namespace rivulet
