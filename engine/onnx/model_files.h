// Storage of an imported model: the graph as a GraphDef, the weights as safetensors.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/onnx/import.h"

namespace rivulet::onnx {

// Returns the variables by their names in the graph. Metadata: "onnx.input.NAME", "onnx.output.NAME" and
// "onnx.weight.NAME" give the graph's tensor or variable for each name of the model. "onnx.perm.NAME" is the
// permutation that converts a stored weight to the model's layout.
StatusOr<std::string> WeightsToSafetensors(const OnnxModel& model);

// Creates `folder` and writes FOLDER/graph.pb and FOLDER/model.safetensors, each atomically.
Status WriteModelFiles(const OnnxModel& model, const std::string& folder);

}  // namespace rivulet::onnx
