// Import of ONNX models as graphs. Each node becomes ops of ours (engine/onnx/operator.h). Initializers that are
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

// The newest version of ONNX's own operators that is known here.
inline constexpr int64_t kNewestOpset = 28;

struct ImportLimits {
  size_t bytes = size_t{1} << 31;
  int nodes = 200'000;  // after functions were put in place of their calls
  int call_depth = 16;
};

struct ImportOptions {
  // By input name; in place of what the model declares.
  std::map<std::string, Shape> shapes;
  // By input name: the input becomes this constant. Needed where shapes depend on it.
  std::map<std::string, Tensor> constants;
  // Names of initializers, with `*` for any characters, that are variables whatever their place says.
  std::vector<std::string> trainable;
  // Where the model lies: external data are read from this folder only. Empty: external data are refused.
  std::string folder;
  ImportLimits limits;
};

struct OnnxValue {
  std::string name;    // in the model
  std::string tensor;  // in the graph; names are the model's as far as the graph allows them
  TensorSpec spec;     // sizes that the model leaves open are unknown
};

struct OnnxWeight {
  std::string name;      // in the model
  std::string variable;  // in the graph
  std::string segment;   // trainable, or shared: running statistics of a normalisation
  Tensor value;          // as the graph stores it
  // Filters and matrices that the graph stores in the engine's layout, so that no step transposes them: `value`
  // transposed by it is the model's. Empty: as the model has it. Also the attribute "_onnx_perm" of the VarHandleOp.
  std::vector<int64_t> perm;
};

// What an initializer of a floating type is, and by what it is told.
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
  std::vector<OnnxInitializer> initializers;  // of a floating type and at least one axis, in the model's order
};

// The model's inputs as it declares them, without those that initializers give. Errors as ImportOnnx.
StatusOr<std::vector<OnnxValue>> OnnxInputs(std::string_view bytes);

// What a model asks for, without building anything.
struct ModelSummary {
  std::vector<std::string> ops;         // operators, each once, sorted
  std::vector<std::string> inputs;      // in order, without those that initializers give
  std::vector<std::string> all_inputs;  // in order
  std::string no_tensor;                // the first input or output that is no tensor, as an error tells it; ""
};
// DATA_LOSS: no ModelProto.
StatusOr<ModelSummary> SummarizeOnnx(std::string_view bytes);

// A model's nodes among those of a graph under construction: what a caller gives for the model's inputs and weights.
struct OnnxBody {
  // In the place of the model's inputs, in order; of their types.
  std::vector<Output> inputs;
  // The value of a weight (its `variable` is empty), read from a variable of the caller's choice.
  std::function<Output(const OnnxWeight& weight)> weight;
  // BatchNormalization by the batch, with running statistics moved, and Dropout that drops.
  bool training = false;
};

struct OnnxBodyOutputs {
  std::vector<Output> outputs;       // in order
  bool differs = false;              // some node would be another with `training`
  std::vector<std::string> updates;  // with `training`: nodes that a step runs besides
};

// Errors as ImportOnnx. INVALID_ARGUMENT besides: another number of inputs than the model has.
StatusOr<OnnxBodyOutputs> BuildOnnx(std::string_view bytes, const Scope& scope, const OnnxBody& body,
                                    const ImportOptions& options = {});

// Errors name the operator, the node and the opset. DATA_LOSS: no ModelProto. UNIMPLEMENTED: an operator, attribute,
// type or opset that is not supported. INVALID_ARGUMENT: a malformed model. FAILED_PRECONDITION: a shape or value must
// be known that depends on an input; `needed` (optional) then receives the inputs to give as constants.
StatusOr<OnnxModel> ImportOnnx(std::string_view bytes, const ImportOptions& options = {},
                               std::set<std::string>* needed = nullptr);

}  // namespace rivulet::onnx
