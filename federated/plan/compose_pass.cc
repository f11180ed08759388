#include "federated/plan/compose_pass.h"

#include <set>
#include <utility>

#include "engine/graph/compose.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "federated/plan/flat_names.h"

namespace rivulet {
namespace {

using Substitutes = std::map<std::string, Output, std::less<>>;

bool OnlyLooks(std::string_view op) {
  return op == "ReadVariableOp" || op == "ResourceGather" || op == "VariableShape";
}

class ForwardBuilder {
 public:
  ForwardBuilder(const ModelDef& model, const LocalPass& pass) : model_(model), pass_(pass) {}

  StatusOr<ForwardGraph> Build() && {
    for (const ModelInstance& instance : pass_.models) RIVULET_RETURN_IF_ERROR(AddInstance(instance));
    RIVULET_RETURN_IF_ERROR(AddLoss());
    std::vector<Node*> wanted = {forward_.loss.node};
    RIVULET_RETURN_IF_ERROR(CheckScalar("loss", forward_.loss));
    for (const PassScalar& scalar : pass_.scalars) {
      RIVULET_ASSIGN_OR_RETURN(const Output output, forward_.graph.FindOutput(scalar.tensor));
      RIVULET_RETURN_IF_ERROR(CheckScalar(scalar.name, output));
      wanted.push_back(output.node);
    }
    RIVULET_RETURN_IF_ERROR(CheckOnlyRead(wanted));
    return std::move(forward_);
  }

 private:
  // The first instance over the model being trained is the model's graph itself. Every other instance reads variables
  // from its own buffer and shares the first one's fed tensors, so that a batch is decoded and fed once.
  Status AddInstance(const ModelInstance& instance) {
    Graph& graph = forward_.graph;
    const bool first = forward_.handles.empty();
    auto& handles = forward_.handles.emplace_back();
    if (first && instance.buffer == "params") {
      graph = model_.graph.Clone();
      for (const auto& node : graph.nodes()) {
        if (node->type() == "VarHandleOp") handles.emplace(VariableName(*node), node->output());
      }
      return absl::OkStatus();
    }
    const Scope scope(graph);
    Substitutes instead;
    for (const auto& node : model_.graph.nodes()) {
      if (node->type() == "VarHandleOp") {
        const std::string variable(VariableName(*node));
        Output& handle = handles[variable];
        if (!handle) {
          AttrMap attrs = node->attrs();
          const std::string buffer = BufferOf(instance, variable);
          const std::string name = InstanceVariable(buffer, variable);
          attrs["shared_name"] = name;
          handle = scope.Op("VarHandleOp", {}, std::move(attrs), name);
          if (OnlyRead(buffer)) only_read_.insert(handle.node);
        }
        instead[node->name()] = handle;
      } else if (!first && node->type() == "Placeholder") {
        instead[node->name()] = graph.Find(node->name())->output();
      }
    }
    RIVULET_RETURN_IF_ERROR(scope.status());
    return ImportInto(graph, model_.graph, instance.prefix, {}, nullptr, instead);
  }

  // Vectors of client state, rules and broadcasts contain only trained variables, so others come from the base.
  std::string BufferOf(const ModelInstance& instance, std::string_view variable) const {
    if (!IsModelVector(instance.buffer)) return instance.buffer;
    for (const ModelVariable& known : model_.variables) {
      if (known.name == variable && (known.segment == "trainable" || known.segment == "local")) return instance.buffer;
    }
    return "base_params";
  }

  Status AddLoss() {
    Graph& graph = forward_.graph;
    if (pass_.loss == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(forward_.loss, graph.FindOutput(pass_.training ? model_.train_loss : model_.eval_loss));
      return absl::OkStatus();
    }
    Substitutes instead;
    for (const auto& node : pass_.loss->nodes()) {
      if (node->type() == "VarHandleOp") {
        return InvalidArgument("the loss has a variable '{}'; it may use only the models' outputs",
                               VariableName(*node));
      }
      if (node->type() != "Placeholder") continue;
      const auto input = pass_.loss_inputs.find(node->name());
      if (input == pass_.loss_inputs.end()) {
        return InvalidArgument("the loss has an unbound placeholder '{}'", node->name());
      }
      RIVULET_ASSIGN_OR_RETURN(instead[node->name()], graph.FindOutput(input->second));
    }
    RIVULET_RETURN_IF_ERROR(ImportInto(graph, *pass_.loss, kLossScope, {}, nullptr, instead));
    RIVULET_ASSIGN_OR_RETURN(forward_.loss, graph.FindOutput(fmt::format("{}/loss", kLossScope)));
    return absl::OkStatus();
  }

  static Status CheckScalar(std::string_view name, const Output& output) {
    if (output.dtype() == DType::kFloat32 && Shape::Compatible(output.shape(), Shape{})) return absl::OkStatus();
    return InvalidArgument("its {} '{}' is {}{}; it must be a float32 scalar", name, output.name(),
                           Name(output.dtype()), output.shape().ToString());
  }

  // All tasks of the process share the base model, so no op that could write (a function, say) may take its handle.
  Status CheckOnlyRead(std::span<Node* const> wanted) const {
    for (const Node* node : forward_.graph.TopologicalOrder(wanted)) {
      for (const Output& input : node->inputs()) {
        if (!only_read_.contains(input.node) || OnlyLooks(node->type())) continue;
        return InvalidArgument("it gives '{}', which can only be read, to {} '{}'", VariableName(*input.node),
                               node->type(), node->name());
      }
    }
    return absl::OkStatus();
  }

  const ModelDef& model_;
  const LocalPass& pass_;
  ForwardGraph forward_;
  std::set<const Node*> only_read_;
};

}  // namespace

std::string InstanceVariable(std::string_view buffer, std::string_view variable) {
  return buffer == "params" ? std::string(variable) : fmt::format("{}/{}", buffer, variable);
}

StatusOr<ForwardGraph> ComposeForward(const ModelDef& model, const LocalPass& pass) {
  return ForwardBuilder(model, pass).Build();
}

}  // namespace rivulet
