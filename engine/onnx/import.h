// Import of ONNX models as graphs. Each node becomes ops of Rivulet (engine/onnx/operator.h). Initializers that are
// weights (engine/onnx/weight_places.h) become variables, so that an imported model can be trained; other constants
// stay in the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet::onnx {

// The newest supported version of ONNX's own operators.
inline constexpr int64_t kNewestOpset = 28;

struct ImportLimits {
  size_t bytes = size_t{1} << 31;
  int nodes = 200'000;  // with functions expanded at their calls
  int call_depth = 16;
};

struct ImportOptions {
  // By input name; replaces the model's shape.
  std::map<std::string, Shape> shapes;
  // By input name: the input becomes this constant. Needed if shapes depend on its value.
  std::map<std::string, Tensor> constants;
  // Name patterns of initializers that become variables regardless of their roles; `*` matches any characters.
  std::vector<std::string> trainable;
  // The model's folder: external data are read only from there. Empty: external data are refused.
  std::string folder;
  ImportLimits limits;
};

struct OnnxValue {
  std::string name;    // in the model
  std::string tensor;  // in the graph; equals the model's name as far as the graph permits
  TensorSpec spec;     // sizes that are open in the model are unknown
};

struct OnnxWeight {
  std::string name;      // in the model
  std::string variable;  // in the graph
  std::string segment;   // trainable, or shared for running statistics of a normalisation
  Tensor value;          // in the graph's layout
  // For filters and matrices stored in the engine's layout, so that no step transposes them: `value` transposed by
  // `perm` is the model's value. Empty: stored unchanged. It is also the attribute "_onnx_perm" of the VarHandleOp.
  std::vector<int64_t> perm;
};

// The role of a floating initializer, and the evidence for it.
struct OnnxInitializer {
  std::string name;
  std::string role;  // "weight", "running statistic" or "constant"
  std::string why;   // "input 1 of Conv 'conv1'"
};

struct OnnxModel {
  Graph graph;
  std::vector<OnnxValue> inputs;  // without initializers and constants
  std::vector<OnnxValue> outputs;
  std::vector<OnnxWeight> weights;
  std::vector<OnnxInitializer> initializers;  // floating, with at least one axis, in the model's order
};

// Returns the model's declared inputs, without initializers. Errors as ImportOnnx.
StatusOr<std::vector<OnnxValue>> OnnxInputs(std::string_view bytes);

// Operators and inputs of a model, found without building a graph.
struct ModelSummary {
  std::vector<std::string> ops;         // without duplicates, sorted
  std::vector<std::string> inputs;      // in order, without initializers
  std::vector<std::string> all_inputs;  // in order
  std::string no_tensor;                // the first input or output that is not a tensor, in an error's words; or ""
};
// DATA_LOSS: not a ModelProto.
StatusOr<ModelSummary> SummarizeOnnx(std::string_view bytes);

// The caller's values for a model's inputs and weights when its nodes are added to an existing graph.
struct OnnxBody {
  // Replacements of the model's inputs, in order and with their types.
  std::vector<Output> inputs;
  // Returns the value of a weight (its `variable` is empty), read from a variable of the caller's choice.
  std::function<Output(const OnnxWeight& weight)> weight;
  // BatchNormalization uses the batch and updates running statistics, and Dropout is active.
  bool training = false;
};

struct OnnxBodyOutputs {
  std::vector<Output> outputs;       // in order
  bool differs = false;              // true if some node would differ with `training`
  std::vector<std::string> updates;  // with `training`: further nodes that a step must run
};

// Adds the model to a graph. Errors as ImportOnnx. INVALID_ARGUMENT also: a wrong number of inputs.
StatusOr<OnnxBodyOutputs> BuildOnnx(std::string_view bytes, const Scope& scope, const OnnxBody& body,
                                    const ImportOptions& options = {});

// Errors name the operator, the node and the opset. DATA_LOSS: not a ModelProto. UNIMPLEMENTED: an unsupported
// operator, attribute, type or opset. INVALID_ARGUMENT: a malformed model. FAILED_PRECONDITION: a required shape or
// value depends on an input; `needed` (optional) then receives the inputs to set as constants.
StatusOr<OnnxModel> ImportOnnx(std::string_view bytes, const ImportOptions& options = {},
                               std::set<std::string>* needed = nullptr);

}  // namespace rivulet::onnx
