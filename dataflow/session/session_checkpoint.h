// Checkpoints of a session's variables.
#pragma once

#include <map>
#include <string>

#include "dataflow/session/session.h"
#include "engine/base/status.h"
#include "engine/io/checkpoint.h"

namespace rivulet {

// Saves every variable that has a value. Errors as CheckpointFolder::Save. Not one moment of the session where other
// threads run training steps meanwhile: each variable is whole, but they may be of different steps.
Status SaveVariables(const Session& session, CheckpointFolder& folder, int64_t step,
                     const std::map<std::string, std::string>& metadata = {});

// Gives the session's variables the checkpoint's values, all or, with an error, none. INVALID_ARGUMENT: a variable of
// another type or shape. NOT_FOUND: a tensor that is no variable of the session, or a variable that the checkpoint
// lacks; `partial` allows both, for models that have changed.
Status RestoreVariables(const Checkpoint& checkpoint, Session& session, bool partial = false);

}  // namespace rivulet
