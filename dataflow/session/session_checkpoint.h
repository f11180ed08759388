// Checkpoints of a session's variables.
#pragma once

#include <map>
#include <string>

#include "dataflow/session/session.h"
#include "engine/base/status.h"
#include "engine/io/checkpoint.h"

namespace rivulet {

// Saves every variable that has a value. Errors as CheckpointFolder::Save. During concurrent training steps this is not
// a snapshot: each variable is consistent, but they may be from different steps.
Status SaveVariables(const Session& session, CheckpointFolder& folder, int64_t step,
                     const std::map<std::string, std::string>& metadata = {});

// Sets the session's variables to the checkpoint's values: all, or on an error, none. INVALID_ARGUMENT: a variable of
// another type or shape. NOT_FOUND: a tensor that is not a variable of the session, or a variable that the checkpoint
// lacks; `partial` allows both, for models that have changed.
Status RestoreVariables(const Checkpoint& checkpoint, Session& session, bool partial = false);

}  // namespace rivulet
