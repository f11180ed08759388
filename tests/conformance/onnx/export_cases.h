// Models and single ops with inputs and the engine's results, which export_test.cc writes as ONNX.
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
  onnx::ExportOptions options;  // including the weights
  onnx::NamedTensors feeds;
  std::vector<Tensor> expected;  // results for options.outputs
  double tolerance = 1e-5;       // relative to the largest element of an output
};

// A preset by name, with initial values, but with running statistics other than zeros and ones.
StatusOr<OnnxExportCase> PresetCase(const std::string& preset);
// Models as lists of layers, which together contain every kind of layer.
std::vector<std::string> LayerCaseNames();
std::set<std::string> LayerKindsInCases();
StatusOr<OnnxExportCase> LayerCase(const std::string& name);

// Reference cases of tests/conformance/ops/, by index.
size_t ReferenceCaseCount();
std::string ReferenceCaseName(size_t index);
// Feeds floating inputs (or all, if there are no floating ones); the others are constants. NOT_FOUND: not a case of a
// forward op.
StatusOr<OnnxExportCase> ReferenceCase(size_t index);

// Graphs of a few ops, by name, whose form in ONNX depends on more than one op: unused outputs, axes given as one
// number, sizes that follow from an unknown batch.
std::vector<std::string> GraphCaseNames();
StatusOr<OnnxExportCase> GraphCase(const std::string& name);

// |a - b| <= tolerance · the largest |b|, or 1; integers and bools equal; NaN equals NaN. Returns the difference.
std::string DifferenceOf(const Tensor& actual, const Tensor& expected, double tolerance);

// Writes FOLDER/NAME/model.onnx and test_data_set_0/{input,output}_K.pb, ONNX's layout of a case.
Status WriteCase(const OnnxExportCase& c, const std::string& model, const std::string& folder);

}  // namespace rivulet
