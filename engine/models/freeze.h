// Marking of variables as frozen (not trained), as a base's (in no version) or personal (never sent by a client).
#pragma once

#include <set>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// Moves every variable whose name matches a pattern ("conv1/*": `*` stands for any characters) into the segment
// "frozen": training computes no gradient for it and leaves out updates of its own, such as running averages.
// NOT_FOUND: a pattern that matches no variable (names the nearest). INVALID_ARGUMENT: nothing is left to train.
Status Freeze(ModelDef& model, std::span<const std::string> patterns);
// Moves frozen variables into the segment "base" (federated/weights/base.h): a file has their values. The model's first
// values no longer name them, and nodes that made those values alone, such as constants of trained weights, are gone.
// INVALID_ARGUMENT: a variable of another segment.
Status MoveToBase(ModelDef& model, const std::set<std::string>& variables);
// Moves every trainable or shared variable whose name matches into the segment "local": each client trains its own, and
// of a batch normalisation keeps its own running statistics too, of which the training loss knows nothing: their
// gradient is zero, and the model's own updates move them. Errors as Freeze.
Status MakePersonal(ModelDef& model, std::span<const std::string> patterns);

}  // namespace rivulet
