#include "federated/plan/loss_scale.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/program/structural_ops.h"
#include "federated/plan/number.h"
#include "federated/settings/registered_piece.h"

namespace rivulet {
namespace {

constexpr char kLossScale[] = "loss scale";

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, LossScaling, std::less<>>& LossScalings() {
  static auto* const scalings = new std::map<std::string, LossScaling, std::less<>>;
  return *scalings;
}

Output ScalarHandle(const Scope& scope, const std::string& name) {
  return scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat64}, {"shape", Shape{}}, {"shared_name", name}}, name);
}
// Makes the run of `graph` depend on `node` too.
Status RunsAlso(Graph& graph, Node* node) {
  if (node == nullptr) return absl::OkStatus();  // the scope has the error
  return graph.AddControlInput(graph.Find(kRunTarget), node);
}

Status AssignFirst(Graph& begin, const std::string& name, double value) {
  const Scope scope(begin);
  Node* assign = scope.AddNode("AssignVariableOp", {ScalarHandle(scope, name), Number(scope, value)},
                               {{"dtype", DType::kFloat64}});
  RIVULET_RETURN_IF_ERROR(scope.status());
  return RunsAlso(begin, assign);
}

// Rewrites a step graph. Rules know nothing of scales: any rule is wrapped, based on the variables that it reads and
// writes. A branch around the step would work too, but its body would be a function, into which gradients cannot be
// fused.
class ScaledStep {
 public:
  ScaledStep(Graph& step, const std::string& scale) : graph_(step), scope_(step) {
    for (const auto& node : step.nodes()) old_.push_back(node.get());
    scale_handle_ = ScalarHandle(scope_, scale);
    scale_ = Read(scale_handle_, DType::kFloat64);
  }

  // Divides the gradients by the scale, or sets them to zero in a skipped step. Zeros are selected if any gradient is
  // not finite: an infinity times zero would be NaN.
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

  // Keeps the step's variables unchanged in a skipped step. This includes slots: a momentum that contains one
  // NaN keeps it forever. Each variable is read before the step, and afterwards the old or the new value is
  // selected.
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

  LossScaleUpdate Update(LocalRule& rule) { return LossScaleUpdate(scope_, rule, scale_handle_, scale_, finite_); }

 private:
  Output Read(Output handle, DType dtype) { return scope_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}}); }
  Status Assign(Output handle, Output value, DType dtype) {
    Node* assign = scope_.AddNode("AssignVariableOp", {handle, value}, {{"dtype", dtype}});
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return RunsAlso(graph_, assign);
  }
  // Whether this is plain SGD directly on the gradient. weights − rate · 0 are the weights, so keeping the old ones
  // costs nothing, and the update may still be fused.
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

LossScalingRegistration::LossScalingRegistration(LossScaling scaling) {
  RegisterPiece(kLossScale, scaling.name, [scaling] {
    SettingTableRegistration(
        {.kind = kLossScale, .name = scaling.name, .settings = scaling.settings, .doc = scaling.doc});
    LossScalings().emplace(scaling.name, scaling);
  });
}

Setting LossScaleSetting(std::string doc) {
  return WithExample(Float("scale", 32768, std::move(doc)).Between(kSmallestLossScale, kLargestLossScale), "1024.0");
}

StatusOr<Output> LossScaleUpdate::AddScalar(double first) {
  const std::string name = fmt::format("scalars/{}", rule_.scalars++);
  RIVULET_RETURN_IF_ERROR(AssignFirst(rule_.begin, name, first));
  return ScalarHandle(scope_, name);
}

Output LossScaleUpdate::Read(Output scalar) const {
  return scope_.Op("ReadVariableOp", {scalar}, {{"dtype", DType::kFloat64}});
}

Status LossScaleUpdate::Assign(Output scalar, Output value) {
  Node* const assign = scope_.AddNode("AssignVariableOp", {scalar, value}, {{"dtype", DType::kFloat64}});
  RIVULET_RETURN_IF_ERROR(scope_.status());
  return RunsAlso(rule_.step, assign);
}

StatusOr<std::string> AddLossScale(const LossScaleConfig& config, LocalRule& rule) {
  const auto found = LossScalings().find(config.kind);
  if (found == LossScalings().end()) {
    const std::vector<std::string> names = SettingTableNames(kLossScale);
    return InvalidArgument("client.loss_scale.kind is '{}'; it must be one of {}.{}", config.kind, Join(names, ", "),
                           DidYouMean(config.kind, names));
  }
  const LossScaling& scaling = found->second;
  if (scaling.first == nullptr) return std::string();
  const SettingTable table = {.settings = scaling.settings};
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(table, config.settings, "client.loss_scale"));
  const std::string scale = fmt::format("scalars/{}", rule.scalars++);
  RIVULET_RETURN_IF_ERROR(AssignFirst(rule.begin, scale, scaling.first(settings)));
  ScaledStep step(rule.step, scale);
  RIVULET_RETURN_IF_ERROR(step.UnscaleGradients());
  RIVULET_RETURN_IF_ERROR(step.KeepWhatDoesNotCount());
  if (scaling.adapt != nullptr) {
    LossScaleUpdate update = step.Update(rule);
    RIVULET_RETURN_IF_ERROR(scaling.adapt(settings, update));
  }
  return scale;
}

}  // namespace rivulet
