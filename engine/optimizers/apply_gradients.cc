#include "engine/optimizers/apply_gradients.h"

#include <map>

#include "engine/gradients/indexed_slices.h"
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

// A variable beside the model's, set to `initial` by the target `init`.
Output Slot(const Scope& root, const std::string& name, DType dtype, const Shape& shape, double initial) {
  const Output slot =
      root.Op("VarHandleOp", {},
              {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}, {"_segment", std::string("slot")}}, name);
  Tensor dims(DType::kInt64, Shape{shape.rank()});
  for (int axis = 0; axis < shape.rank(); ++axis) dims.flat<int64_t>()[static_cast<size_t>(axis)] = shape.dim(axis);
  const Output value =
      root.Op("Fill", {root.Const(std::move(dims), name + "/shape"), Scalar(root, dtype, initial, name + "/value")}, {},
              name + "/first");
  Node* assign = root.AddNode("AssignVariableOp", {slot, value}, {}, name + "/Assign");
  if (assign == nullptr) return {};
  Node* init = root.graph().Find(kInitTarget);
  if (init == nullptr) init = root.AddNode("NoOp", {}, {}, kInitTarget);
  if (init != nullptr)
    if (Status status = root.graph().AddControlInput(init, assign); !status.ok()) root.Fail(std::move(status));
  return slot;
}

Status CheckPair(const Output& variable, const Output& gradient, size_t i, bool has_slots) {
  if (!variable || variable.node->type() != "VarHandleOp")
    return InvalidArgument("variable {} is no VarHandleOp's output", i);
  const Node& handle = *variable.node;
  if (!gradient) return InvalidArgument("the gradient of '{}' is empty", VariableName(handle));
  if (gradient.dtype() != VariableDType(handle) || !Shape::Compatible(gradient.shape(), variable.shape()))
    return InvalidArgument("'{}' is {}{}, but its gradient is {}{}", VariableName(handle), Name(VariableDType(handle)),
                           variable.shape().ToString(), Name(gradient.dtype()), gradient.shape().ToString());
  if (has_slots && !variable.shape().IsFullyKnown())
    return InvalidArgument("'{}' has shape {}; this optimizer needs a fully known one", VariableName(handle),
                           variable.shape().ToString());
  return absl::OkStatus();
}

}  // namespace

// Updates wait for all gradients, not only for their own: an update that ran as soon as it could would change a
// variable that the rest of the backward pass still reads. The betas' powers decay behind all updates, since all of one
// step read the same power. There is a pair of them per type: the op averages with beta rounded to its own type, and a
// correction by another beta would not fit the averages.
StatusOr<Node*> ApplyGradients(const Scope& scope, const OptimizerSpec& spec, std::span<const Output> variables,
                               std::span<const Output> gradients) {
  if (variables.size() != gradients.size())
    return InvalidArgument("there are {} variables, but {} gradients", variables.size(), gradients.size());
  RIVULET_ASSIGN_OR_RETURN(const Optimizer optimizer, Optimizer::Create(spec));
  const std::vector<OptimizerSlot> slots = optimizer.slots();
  std::vector<Node*> before;
  for (size_t i = 0; i < variables.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(CheckPair(variables[i], gradients[i], i, !slots.empty()));
    const auto rows = AsIndexedSlices(gradients[i]);
    before.push_back(rows ? rows->values.node : gradients[i].node);  // so that a dense form need not be made
  }

  const Scope root(scope.graph());
  const Scope train = scope.SubScope("train").WithControl(before);
  struct Decay {
    Output handle, value, beta;
  };
  std::vector<Decay> decays;
  std::map<DType, OptimizerUpdates> by_type;
  std::vector<Node*> updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    const DType dtype = gradients[i].dtype();
    auto found = by_type.find(dtype);
    if (found == by_type.end()) {
      Output power[2];
      if (const auto betas = optimizer.betas()) {
        for (size_t k = 0; k < 2; ++k) {
          const double beta = OptimizerUpdates::Beta((*betas)[k], dtype);
          const std::string name = fmt::format("{}beta{}_power{}", scope.prefix(), k + 1,
                                               by_type.empty() ? "" : fmt::format("_{}", Name(dtype)));
          const Output handle = Slot(root, name, DType::kFloat64, Shape{}, beta);
          power[k] = train.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat64}});
          decays.push_back({handle, power[k], train.Const(Tensor::Scalar(beta), "beta")});
        }
      }
      const Output rate = Scalar(train, dtype, optimizer.learning_rate(), "learning_rate");
      found = by_type.emplace(dtype, OptimizerUpdates(train, optimizer, dtype, rate, power[0], power[1])).first;
    }
    std::vector<Output> handles;
    for (const OptimizerSlot& slot : slots)
      handles.push_back(Slot(root, fmt::format("{}/{}", VariableName(*variables[i].node), slot.name), dtype,
                             variables[i].shape(), slot.initial));
    updates.push_back(found->second.Update(variables[i], handles, gradients[i], fmt::format("update_{}", i)));
  }
  const Scope after = scope.WithControl(updates);
  std::vector<Node*> done = updates;
  for (const Decay& decay : decays)
    done.push_back(after.AddNode("AssignVariableOp", {decay.handle, after.Op("Mul", {decay.value, decay.beta})}));
  Node* step = scope.WithControl(done).AddNode("NoOp", {}, {}, "train_step");
  RIVULET_RETURN_IF_ERROR(root.status());
  RIVULET_RETURN_IF_ERROR(scope.status());
  return step;
}

}  // namespace rivulet
