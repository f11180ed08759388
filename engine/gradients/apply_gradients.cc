#include "engine/gradients/apply_gradients.h"

#include <cmath>

#include "engine/graph/inference.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

constexpr char kInitTarget[] = "init";

Output Scalar(const Scope& scope, DType dtype, double value, std::string_view name) {
  if (dtype == DType::kFloat64) return scope.Const(Tensor::Scalar(value), name);
  const Output scalar = scope.Const(static_cast<float>(value), name);
  return dtype == DType::kFloat32 ? scalar : scope.Op("Cast", {scalar}, {{"DstT", dtype}});
}

// A variable of zeros beside `variable`, set by the target `init`.
Output Slot(const Scope& root, Output variable) {
  const std::string name = fmt::format("{}/Momentum", VariableName(*variable.node));
  const DType dtype = VariableDType(*variable.node);
  const Shape& shape = variable.shape();
  const Output slot =
      root.Op("VarHandleOp", {},
              {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}, {"_segment", std::string("slot")}}, name);
  Tensor dims(DType::kInt64, Shape{shape.rank()});
  for (int axis = 0; axis < shape.rank(); ++axis) dims.flat<int64_t>()[static_cast<size_t>(axis)] = shape.dim(axis);
  const Output zeros =
      root.Op("Fill", {root.Const(std::move(dims), name + "/shape"), Scalar(root, dtype, 0, name + "/zero")}, {},
              name + "/zeros");
  Node* assign = root.AddNode("AssignVariableOp", {slot, zeros}, {}, name + "/Assign");
  if (assign == nullptr) return {};
  Node* init = root.graph().Find(kInitTarget);
  if (init == nullptr) init = root.AddNode("NoOp", {}, {}, kInitTarget);
  if (init != nullptr)
    if (Status status = root.graph().AddControlInput(init, assign); !status.ok()) root.Fail(std::move(status));
  return slot;
}

}  // namespace

StatusOr<Node*> ApplyGradients(const Scope& scope, const OptimizerSpec& optimizer, std::span<const Output> variables,
                               std::span<const Output> gradients) {
  if (variables.size() != gradients.size())
    return InvalidArgument("there are {} variables, but {} gradients", variables.size(), gradients.size());
  if (!std::isfinite(optimizer.learning_rate) || optimizer.learning_rate < 0)
    return InvalidArgument("the learning rate must be finite and not negative, but is {}", optimizer.learning_rate);
  const bool momentum = optimizer.kind == OptimizerSpec::Kind::kMomentum;
  if (momentum && !(optimizer.momentum >= 0 && optimizer.momentum < 1))
    return InvalidArgument("momentum must be in [0, 1), but is {}", optimizer.momentum);

  std::vector<Node*> before;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!variables[i] || variables[i].node->type() != "VarHandleOp")
      return InvalidArgument("variable {} is no VarHandleOp's output", i);
    const Node& handle = *variables[i].node;
    if (!gradients[i]) return InvalidArgument("the gradient of '{}' is empty", VariableName(handle));
    if (gradients[i].dtype() != VariableDType(handle) || !Shape::Compatible(gradients[i].shape(), variables[i].shape()))
      return InvalidArgument("'{}' is {}{}, but its gradient is {}{}", VariableName(handle),
                             Name(VariableDType(handle)), variables[i].shape().ToString(), Name(gradients[i].dtype()),
                             gradients[i].shape().ToString());
    if (momentum && !variables[i].shape().IsFullyKnown())
      return InvalidArgument("'{}' has shape {}; momentum needs a fully known one", VariableName(handle),
                             variables[i].shape().ToString());
    before.push_back(gradients[i].node);
  }

  const Scope root(scope.graph());
  const Scope train = scope.SubScope("train").WithControl(before);
  std::vector<Node*> updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    const DType dtype = gradients[i].dtype();
    const std::string name = fmt::format("update_{}", i);
    const Output rate = Scalar(train, dtype, optimizer.learning_rate, "learning_rate");
    if (momentum) {
      const Output slot = Slot(root, variables[i]);
      const Output factor = Scalar(train, dtype, optimizer.momentum, "momentum");
      updates.push_back(train.AddNode("ResourceApplyMomentum", {variables[i], slot, rate, gradients[i], factor},
                                      {{"use_nesterov", optimizer.nesterov}}, name));
    } else {
      updates.push_back(train.AddNode("ResourceApplyGradientDescent", {variables[i], rate, gradients[i]}, {}, name));
    }
  }
  Node* done = scope.WithControl(updates).AddNode("NoOp", {}, {}, "train_step");
  RIVULET_RETURN_IF_ERROR(root.status());
  RIVULET_RETURN_IF_ERROR(scope.status());
  return done;
}

}  // namespace rivulet
