// Numbers that a server keeps with a version, beside its model and vectors.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

struct ServerNumbers {
  Scalars all;                             // of the version, by name
  std::map<std::string, Scalars> clients;  // of single clients, by client_id
  bool operator==(const ServerNumbers&) const = default;
};

// As a version's file holds them, with a CRC-32C. All must be finite.
std::string TextOf(const ServerNumbers& numbers);
// The same numbers, to the bit. DATA_LOSS: no such text, or a damaged one.
StatusOr<ServerNumbers> ParseServerNumbers(std::string_view text);

}  // namespace rivulet
