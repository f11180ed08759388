// Models and single ops with inputs and the engine's own results: what export_test.cc writes as ONNX.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/onnx/export/export.h"
#include "engine/onnx/run.h"

namespace rivulet {

struct OnnxExportCase {
  std::string name;
  Graph graph;
  onnx::ExportOptions options;  // with the weights
  onnx::NamedTensors feeds;
  std::vector<Tensor> expected;  // of options.outputs
  double tolerance = 1e-5;       // relative to the largest element of an output
};

// Every preset by name; first values, but running statistics that are no zeros and ones.
StatusOr<OnnxExportCase> PresetCase(const std::string& preset);
// Models as lists of layers, which together have every kind of layer.
std::vector<std::string> LayerCaseNames();
std::set<std::string> LayerKindsInCases();
StatusOr<OnnxExportCase> LayerCase(const std::string& name);

// Reference cases of tests/conformance/ops/, by index.
size_t ReferenceCaseCount();
std::string ReferenceCaseName(size_t index);
// Floating inputs are fed (all, where there are only others), the rest are constants. NOT_FOUND: not a case of what a
// model does forwards.
StatusOr<OnnxExportCase> ReferenceCase(size_t index);

// Graphs of a few ops, by name, whose form in ONNX depends on more than one op: outputs that nobody uses, axes that are
// one number, sizes that follow from an open batch.
std::vector<std::string> GraphCaseNames();
StatusOr<OnnxExportCase> GraphCase(const std::string& name);

// |a - b| <= tolerance · the largest |b|, or 1; integers and bools equal; NaN equals NaN. Says what differs.
std::string DifferenceOf(const Tensor& actual, const Tensor& expected, double tolerance);

// FOLDER/NAME/model.onnx and test_data_set_0/{input,output}_K.pb: ONNX's own layout of a case.
Status WriteCase(const OnnxExportCase& c, const std::string& model, const std::string& folder);

}  // namespace rivulet
