#include "federated/plan/local_rules.h"

#include <charconv>
#include <utility>
#include <vector>

#include "engine/graph/scope.h"

namespace rivulet {
namespace {

int64_t SegmentElements(const ModelLayout& layout, Segment segment) {
  return static_cast<int64_t>(layout.segment_bytes(segment) / sizeof(float));
}

// Builds one graph: its nodes, and at last the target that waits for what was added to `before`.
class FlatGraph {
 public:
  FlatGraph() : scope_(graph_) {}

  Output Handle(const std::string& name, int64_t elements) {
    return scope_.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{elements}}, {"shared_name", name}},
                     name);
  }
  Output Read(Output handle) { return scope_.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}); }
  void Assign(Output handle, Output value) {
    Effect("AssignVariableOp", {handle, value}, {{"dtype", DType::kFloat32}});
  }
  void Effect(std::string_view op, std::vector<Output> inputs, AttrMap attrs) {
    before_.push_back(scope_.AddNode(op, std::move(inputs), std::move(attrs)));
  }
  const Scope& scope() const { return scope_; }

  StatusOr<Graph> Finish() && {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    scope_.WithControl(before_).AddNode("NoOp", {}, {}, kRunTarget);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return std::move(graph_);
  }

 private:
  Graph graph_;
  Scope scope_;
  std::vector<Node*> before_;
};

StatusOr<Graph> InitGraph(int64_t elements, int slots) {
  FlatGraph graph;
  for (int slot = 0; slot < slots; ++slot) {
    const Output handle = graph.Handle(fmt::format("slots/{}", slot), elements);
    // Zeros of what was there before: no constant as large as the model, in the plan or in memory.
    graph.Assign(handle, graph.scope().Op("ZerosLike", {graph.Read(handle)}));
  }
  return std::move(graph).Finish();
}

StatusOr<Graph> StepGraph(const OptimizerConfig& optimizer, int64_t elements) {
  FlatGraph graph;
  const Output params = graph.Handle("params", elements);
  const Output grads = graph.Read(graph.Handle("grads", elements));
  const Output learning_rate = graph.scope().Const(static_cast<float>(optimizer.learning_rate), "learning_rate");
  if (optimizer.kind == "sgd") {
    graph.Effect("ResourceApplyGradientDescent", {params, learning_rate, grads}, {});
  } else {
    const Output momentum = graph.scope().Const(static_cast<float>(optimizer.momentum), "momentum");
    graph.Effect("ResourceApplyMomentum", {params, graph.Handle("slots/0", elements), learning_rate, grads, momentum},
                 {{"use_nesterov", optimizer.nesterov}});
  }
  return std::move(graph).Finish();
}

StatusOr<Graph> FinalGraph(int64_t elements, int64_t shared_elements) {
  FlatGraph graph;
  const auto subtract = [&](const char* update, const char* now, const char* base, int64_t count) {
    const Output after = graph.Read(graph.Handle(now, count)), before = graph.Read(graph.Handle(base, count));
    graph.Assign(graph.Handle(update, count), graph.scope().Op("Sub", {after, before}));
  };
  subtract("update/delta", "params", "base_params", elements);
  if (shared_elements > 0) subtract("update/shared_delta", "shared", "base_shared", shared_elements);
  return std::move(graph).Finish();
}

}  // namespace

StatusOr<LocalRule> MakeLocalRule(const OptimizerConfig& optimizer, const ModelLayout& layout) {
  if (optimizer.kind != "sgd" && optimizer.kind != "momentum") {
    return InvalidArgument("client.optimizer.kind \"{}\" is no local rule; there are \"sgd\" and \"momentum\"",
                           optimizer.kind);
  }
  LocalRule rule;
  rule.slots = optimizer.kind == "momentum" ? 1 : 0;
  const int64_t elements = SegmentElements(layout, Segment::kTrainable);
  RIVULET_ASSIGN_OR_RETURN(rule.init, InitGraph(elements, rule.slots));
  RIVULET_ASSIGN_OR_RETURN(rule.step, StepGraph(optimizer, elements));
  RIVULET_ASSIGN_OR_RETURN(rule.final, FinalGraph(elements, SegmentElements(layout, Segment::kShared)));
  return rule;
}

StatusOr<int64_t> FlatElements(std::string_view name, const ModelLayout& layout, int slots) {
  const int64_t shared = SegmentElements(layout, Segment::kShared);
  if (shared > 0 && (name == "shared" || name == "base_shared" || name == "update/shared_delta")) return shared;
  bool known = name == "params" || name == "grads" || name == "base_params" || name == "update/delta";
  if (name.starts_with("slots/")) {
    int slot = -1;
    const auto [end, error] = std::from_chars(name.data() + 6, name.data() + name.size(), slot);
    known = error == std::errc() && end == name.data() + name.size() && slot >= 0 && slot < slots;
  }
  if (known) return SegmentElements(layout, Segment::kTrainable);
  return NotFound("'{}' is no flat variable of a plan with {} slots{}", name, slots,
                  shared > 0 ? "" : " and no shared variables");
}

}  // namespace rivulet
