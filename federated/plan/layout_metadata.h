// Layout metadata in the files of a plan's model (docs/internals/formats.md, "Models of a run").
#pragma once

#include <map>
#include <string>

#include "federated/plan/plan.h"

namespace rivulet {

// "rivulet.layout" of a model with a graph: "rivulet", kernels are [height, width, in, out] and [in, out]. And of one
// that came from ONNX "rivulet.axes": by variable, the order of axes by which it is transposed to lie as it did there,
// as JSON; a variable that is not named lies as it did.
std::map<std::string, std::string> LayoutMetadata(const Plan& plan);

}  // namespace rivulet
