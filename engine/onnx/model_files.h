// Storage of an imported model: the graph as a GraphDef, the weights as safetensors.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/onnx/import.h"

namespace rivulet::onnx {

// Variables by the names they have in the graph. Metadata: "onnx.input.NAME", "onnx.output.NAME" and
// "onnx.weight.NAME" give the tensor or variable of the graph for each name of the model, "onnx.perm.NAME" the order of
// axes by which a weight that is stored otherwise becomes the model's.
StatusOr<std::string> WeightsToSafetensors(const OnnxModel& model);

// Makes `folder` and writes FOLDER/graph.pb and FOLDER/model.safetensors, each atomically.
Status WriteModelFiles(const OnnxModel& model, const std::string& folder);

}  // namespace rivulet::onnx
