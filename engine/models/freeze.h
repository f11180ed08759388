// Marking of variables as frozen (not trained), base (in no version) or personal (never uploaded by a client).
#pragma once

#include <set>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Moves every variable whose name matches a pattern ("conv1/*": `*` matches any characters) into the segment "frozen".
// Training computes no gradient for it and omits its updates, such as running averages. NOT_FOUND: a pattern matches no
// variable (names the nearest). INVALID_ARGUMENT: no variable is left to train.
Status Freeze(ModelDef& model, std::span<const std::string> patterns);
// Moves frozen variables into the segment "base" (federated/weights/base.h), whose values are in a file. The model's
// initial values no longer include them, and nodes that only produced these values, such as constants of trained
// weights, are removed. INVALID_ARGUMENT: a variable of another segment.
Status MoveToBase(ModelDef& model, const std::set<std::string>& variables);
// Moves every trainable or shared variable with a matching name into the segment "local": each client trains its own. A
// batch normalisation's running statistics then also stay with the client. They do not affect the training loss: their
// gradient is zero, and the model's own updates change them. Errors as Freeze.
Status MakePersonal(ModelDef& model, std::span<const std::string> patterns);

}  // namespace rivulet
