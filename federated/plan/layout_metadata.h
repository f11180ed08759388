// Layout metadata in the files of a plan's model (docs/internals/formats.md, "Models of a run").
#pragma once

#include <map>
#include <string>

#include "federated/plan/plan.h"

namespace rivulet {

// "rivulet.layout" of a model with a graph: "rivulet", that is, kernels are [height, width, in, out] and [in, out]. For
// a model from ONNX also "rivulet.axes": by variable, the axis order that transposes it to its layout in the ONNX file,
// as JSON; variables that are not listed have that layout already.
std::map<std::string, std::string> LayoutMetadata(const Plan& plan);

}  // namespace rivulet
