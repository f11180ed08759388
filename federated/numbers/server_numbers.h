// Numbers that a server stores with a version, besides its model and vectors.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

struct ServerNumbers {
  Scalars all;                             // of the version, by name
  std::map<std::string, Scalars> clients;  // of individual clients, by client_id
  bool operator==(const ServerNumbers&) const = default;
};

// Text for a version's file, with a CRC-32C. All numbers must be finite.
std::string TextOf(const ServerNumbers& numbers);
// Restores the numbers exactly. DATA_LOSS: not such a text, or damaged.
StatusOr<ServerNumbers> ParseServerNumbers(std::string_view text);

}  // namespace rivulet
