// State of a client between tasks, in a trainer's buffers: the plan's state vectors, and the model's local variables
// where they are trained.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/training/buffer_table.h"
#include "engine/base/status.h"
#include "federated/states/state_blob.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

// One state vector in a trainer's buffers.
struct KeptPlace {
  std::string name;  // in the state's bytes
  int buffer = 0;
  size_t offset = 0, bytes = 0;
};
// Places of the state vectors in the order of the state's bytes: the plan's, then the local variables.
std::vector<KeptPlace> KeptPlacesOf(const Plan& plan, const BufferTable& table);

// Fills `kept`, the plan's places, with the client's `state` (and `beside` too), or with first values if `state` is "".
// DATA_LOSS: the state is damaged, or of another plan.
Status BeginState(const Plan& plan, const Task& task, const Model& base, std::string_view state,
                  std::span<const NamedState> kept, std::span<const NamedState> beside);

}  // namespace rivulet
