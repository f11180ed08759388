// Inference of the types and shapes of a node's outputs from its op, attributes and inputs. It also evaluates small
// integer tensors that depend on constants and known shapes ("the batch size of x, and 784"), which shape functions
// need.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/op.h"

namespace rivulet {

// The caller's knowledge of a tensor's shape: Output::shape() while a graph is built, a more specific shape when a
// program is compiled for given feeds. The reference must stay valid during the call that uses the lookup.
using ShapeLookup = std::function<const Shape&(Output)>;

// Sets type and number attributes that follow from the inputs, then defaults, and checks all attributes against the op.
// `where` starts messages: "MatMul 'dense/MatMul' (mlp.cc:12)". INVALID_ARGUMENT: wrong number of inputs, a wrong type,
// a missing, unknown or ill-typed attribute.
Status ResolveAttributes(const OpDef& op, std::string_view where, std::span<const DType> input_types, AttrMap& attrs);

// Types of the op's outputs; `attrs` must be resolved.
std::vector<DType> OutputTypes(const OpDef& op, const AttrMap& attrs);

// A node that need not exist yet.
struct InferenceNode {
  const OpDef& op;
  std::string_view name;
  std::string_view where;
  const AttrMap& attrs;  // resolved
  std::span<const Output> inputs;
  const Graph* graph = nullptr;  // has the functions that the node may name
};
// Runs the op's shape function. INVALID_ARGUMENT: its error, preceded by `where` and followed by the operands' shapes.
StatusOr<std::vector<TensorSpec>> InferOutputs(const InferenceNode& node, const ShapeLookup& shape_of);

// The value of `output` if it is a Const, or an int32, int64 or bool tensor of at most 256 elements that follows from
// constants and known sizes (symbolic_values.h).
std::optional<Tensor> ConstantValue(Output output, const ShapeLookup& shape_of);

// The shape that `output`, a vector of sizes, describes: a size is known if it follows from constants and known sizes.
// nullopt: it is not a small vector of a known length.
std::optional<Shape> ValueAsShape(Output output, const ShapeLookup& shape_of);

// "MatMul 'dense/MatMul' (mlp.cc:12)": the form in which messages name a node.
std::string DescribeNode(std::string_view op, std::string_view name, std::string_view source_line);
std::string DescribeNode(const Node& node);

}  // namespace rivulet
