// State of a client between tasks, in a trainer's buffers: the plan's state vectors, and the model's local variables
// where they are trained.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/training/pass_programs.h"
#include "engine/base/status.h"
#include "federated/states/state_blob.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

// One of them, in a trainer's buffers.
struct KeptPlace {
  std::string name;  // as the state's bytes have it
  int buffer = 0;
  size_t offset = 0, bytes = 0;
};
// In the order in which they are written: the plan's, then the local variables.
std::vector<KeptPlace> KeptPlacesOf(const Plan& plan, const BufferTable& table);

// Fills `kept`, the plan's places, with what a task begins with: what its client kept (`state`, and then `beside` too),
// or what nobody has kept yet. DATA_LOSS: a state that is damaged, or of another plan.
Status BeginState(const Plan& plan, const Task& task, const Model& base, std::string_view state,
                  std::span<const NamedState> kept, std::span<const NamedState> beside);

}  // namespace rivulet
