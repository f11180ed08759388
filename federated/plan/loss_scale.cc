#include "federated/plan/loss_scale.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/program/structural_ops.h"
#include "federated/plan/number.h"

namespace rivulet {
namespace {

constexpr double kSmallestScale = 1, kLargestScale = 1 << 24;

Output ScalarHandle(const Scope& scope, const std::string& name) {
  return scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat64}, {"shape", Shape{}}, {"shared_name", name}}, name);
}
// The run of `graph` waits for `node` too.
Status RunsAlso(Graph& graph, Node* node) {
  if (node == nullptr) return absl::OkStatus();  // the scope says why
  return graph.AddControlInput(graph.Find(kRunTarget), node);
}

Status AssignFirst(Graph& begin, const std::string& name, double value) {
  const Scope scope(begin);
  Node* assign = scope.AddNode("AssignVariableOp", {ScalarHandle(scope, name), Number(scope, value)},
                               {{"dtype", DType::kFloat64}});
  RIVULET_RETURN_IF_ERROR(scope.status());
  return RunsAlso(begin, assign);
}

// Rewrites a step graph.
// The rule itself knows nothing of scales: any rule is wrapped, by looking at what it reads and writes. A branch around
// the step would do too, but its body would be a function, into which no gradient can be fused.
class ScaledStep {
 public:
  ScaledStep(Graph& step, const std::string& scale) : graph_(step), scope_(step) {
    for (const auto& node : step.nodes()) old_.push_back(node.get());
    scale_handle_ = ScalarHandle(scope_, scale);
    scale_ = Read(scale_handle_, DType::kFloat64);
  }

  // Gradients as if the loss had not been scaled, or zero where the step does not count.
  // Zero where any is not finite, as an infinity would survive a product with zero as NaN.
  Status UnscaleGradients() {
    const Output scale = scope_.Op("Cast", {scale_}, {{"DstT", DType::kFloat32}});
    const Output inverse = scope_.Op("RealDiv", {scope_.Const(1.0f), scale}, {}, "inverse_scale");
    for (Node* read : old_) {
      if (read->type() != "ReadVariableOp" || VariableName(*read->input(0).node) != "grads") continue;
      const std::vector<Node*> consumers = graph_.Consumers(read->output());
      const Output finite = scope_.Op("AllFinite", {read->output()}, {}, "finite");
      finite_ = finite_ ? scope_.Op("LogicalAnd", {finite_, finite}) : finite;
      const Output usable = scope_.Op(
          "SelectV2", {finite, scope_.Op("Mul", {read->output(), inverse}), scope_.Const(0.0f)}, {}, "usable");
      RIVULET_RETURN_IF_ERROR(scope_.status());
      usable_.push_back(usable);
      for (Node* consumer : consumers) {
        for (int i = 0; i < static_cast<int>(consumer->inputs().size()); ++i)
          if (consumer->input(i) == read->output()) RIVULET_RETURN_IF_ERROR(graph_.ReplaceInput(consumer, i, usable));
      }
    }
    if (!finite_) return InvalidArgument("the step uses no gradients that a loss scale could be taken out of");
    return absl::OkStatus();
  }

  // What the step changes stays as it was where it does not count.
  // Slots must stand still with the weights: momentum that takes in one NaN never gets rid of it. Each variable is read
  // before the step, and after it the old or the new value is kept.
  Status KeepWhatDoesNotCount() {
    std::map<std::string, std::vector<Node*>, std::less<>> writers;
    std::map<std::string, Output, std::less<>> handles;
    for (Node* node : old_) {
      if (!node->op().stateful || OnlyReadsVariables(node->type()) || StandsStillOnZero(*node)) continue;
      for (const Output& input : node->inputs()) {
        if (input.dtype() != DType::kResource) continue;
        const std::string name(VariableName(*input.node));
        writers[name].push_back(node);
        handles[name] = input;
      }
    }
    for (const auto& [name, nodes] : writers) {
      const Output& handle = handles[name];
      const DType dtype = VariableDType(*handle.node);
      const Output before = Read(handle, dtype);
      for (Node* node : nodes) RIVULET_RETURN_IF_ERROR(graph_.AddControlInput(node, before.node));
      const Output after = scope_.WithControl(nodes).Op("ReadVariableOp", {handle}, {{"dtype", dtype}});
      RIVULET_RETURN_IF_ERROR(Assign(handle, scope_.Op("SelectV2", {finite_, after, before}), dtype));
    }
    return scope_.status();
  }

  // Halved at once and doubled slowly: a scale that is too large costs steps, one that is too small only digits. Both
  // by a factor of two, so that no digit is lost by it.
  Status AdaptScale(const std::string& good_steps, int64_t growth_steps) {
    const Output handle = ScalarHandle(scope_, good_steps);
    const Output good = scope_.Op("AddV2", {Read(handle, DType::kFloat64), Number(scope_, 1)});
    const Output full =
        scope_.Op("GreaterEqual", {good, Number(scope_, static_cast<double>(growth_steps))}, {}, "scale_grows");
    const auto times = [&](double factor) { return scope_.Op("Mul", {scale_, Number(scope_, factor)}); };
    const Output grown = scope_.Op("Minimum", {times(2), Number(scope_, kLargestScale)});
    const Output shrunk = scope_.Op("Maximum", {times(0.5), Number(scope_, kSmallestScale)});
    const Output none = Number(scope_, 0);
    const auto choose = [&](Output condition, Output a, Output b) { return scope_.Op("SelectV2", {condition, a, b}); };
    RIVULET_RETURN_IF_ERROR(
        Assign(scale_handle_, choose(finite_, choose(full, grown, scale_), shrunk), DType::kFloat64));
    return Assign(handle, choose(finite_, choose(full, none, good), none), DType::kFloat64);
  }

 private:
  Output Read(Output handle, DType dtype) { return scope_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}}); }
  Status Assign(Output handle, Output value, DType dtype) {
    Node* assign = scope_.AddNode("AssignVariableOp", {handle, value}, {{"dtype", dtype}});
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return RunsAlso(graph_, assign);
  }
  // Plain SGD without anything between it and the gradient.
  // weights − rate · 0 are the weights, so that keeping the old ones costs nothing, and the update may still be fused.
  bool StandsStillOnZero(const Node& node) const {
    return node.type() == "ResourceApplyGradientDescent" && std::ranges::find(usable_, node.input(2)) != usable_.end();
  }

  Graph& graph_;
  Scope scope_;
  std::vector<Node*> old_;
  Output scale_handle_, scale_, finite_;
  std::vector<Output> usable_;
};

}  // namespace

StatusOr<std::string> AddLossScale(const LossScaleConfig& config, LocalRule& rule) {
  const std::string scale = fmt::format("scalars/{}", rule.scalars++);
  RIVULET_RETURN_IF_ERROR(AssignFirst(rule.begin, scale, config.scale));
  ScaledStep step(rule.step, scale);
  RIVULET_RETURN_IF_ERROR(step.UnscaleGradients());
  RIVULET_RETURN_IF_ERROR(step.KeepWhatDoesNotCount());
  if (config.kind == "dynamic") {
    const std::string good_steps = fmt::format("scalars/{}", rule.scalars++);
    RIVULET_RETURN_IF_ERROR(AssignFirst(rule.begin, good_steps, 0));
    RIVULET_RETURN_IF_ERROR(step.AdaptScale(good_steps, config.growth_steps));
  }
  return scale;
}

}  // namespace rivulet
