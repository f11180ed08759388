#include "federated/plan/local_rules.h"

#include <charconv>
#include <utility>
#include <vector>

#include "engine/graph/scope.h"
#include "engine/optimizers/optimizer.h"
#include "engine/optimizers/transform_gradients.h"
#include "federated/plan/learning_rate.h"
#include "federated/plan/number.h"

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
    return Variable(name, {DType::kFloat32, Shape{elements}});
  }
  Output ScalarHandle(const std::string& name) { return Variable(name, {DType::kFloat64, Shape{}}); }
  Output Read(Output handle, DType dtype = DType::kFloat32) {
    return scope_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}});
  }
  Output ReadScalar(const std::string& name) { return Read(ScalarHandle(name), DType::kFloat64); }
  void Assign(Output handle, Output value) {
    before_.push_back(scope_.AddNode("AssignVariableOp", {handle, value}, {{"dtype", value.dtype()}}));
  }
  void Effect(Node* node) { before_.push_back(node); }
  const Scope& scope() const { return scope_; }

  StatusOr<Graph> Finish() && {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    scope_.WithControl(before_).AddNode("NoOp", {}, {}, kRunTarget);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return std::move(graph_);
  }

 private:
  Output Variable(const std::string& name, const TensorSpec& spec) {
    return scope_.Op("VarHandleOp", {}, {{"dtype", spec.dtype}, {"shape", spec.shape}, {"shared_name", name}}, name);
  }

  Graph graph_;
  Scope scope_;
  std::vector<Node*> before_;
};

// Adds nodes to all three graphs for one rule.
// The rule sees one flat vector. An optimiser is then one node over the whole model instead of one per variable, and
// the plan is as small for a large model as for a small one.
class RuleBuilder {
 public:
  RuleBuilder(const ClientConfig& client, const OptimizerSpec& optimizer, int64_t elements)
      : client_(client), optimizer_(optimizer), elements_(elements) {}

  Status Build(LocalRule& rule) {
    const std::vector<OptimizerSlot> slots = SlotsOf(optimizer_);
    for (size_t i = 0; i < slots.size(); ++i) {
      const Output handle = init_.Handle(fmt::format("slots/{}", i), elements_);
      // Zeros of what was there before: no constant as large as the model, in the plan or in memory.
      Output first = init_.scope().Op("ZerosLike", {init_.Read(handle)});
      if (slots[i].initial != 0)
        first = init_.scope().Op("AddV2", {first, init_.scope().Const(static_cast<float>(slots[i].initial), "first")});
      init_.Assign(handle, first);
    }
    Step(slots.size());
    rule.slots = static_cast<int>(slots.size());
    rule.scalars = scalars_;
    RIVULET_ASSIGN_OR_RETURN(rule.init, std::move(init_).Finish());
    RIVULET_ASSIGN_OR_RETURN(rule.step, std::move(step_).Finish());
    return absl::OkStatus();
  }

 private:
  void Step(size_t slots) {
    const Scope& scope = step_.scope();
    const Output params = step_.Handle("params", elements_);
    std::vector<Output> grads = {step_.Read(step_.Handle("grads", elements_))};
    const OptimizerConfig& config = client_.optimizer;
    if (config.clip_value > 0) grads = ClipGradientsByValue(scope, grads, config.clip_value);
    if (config.clip_norm > 0) grads = ClipGradientsByNorm(scope, grads, config.clip_norm);
    if (grads.empty()) return;  // the scope says why
    const Output rate = LearningRate();
    Output powers[2];
    if (CorrectsBias(optimizer_)) {
      for (int k = 0; k < 2; ++k) {
        const double beta = OptimizerUpdates::Beta(k == 0 ? optimizer_.beta1 : optimizer_.beta2, DType::kFloat32);
        powers[k] = Counting(beta, [&](Output now) { return scope.Op("Mul", {now, Number(scope, beta)}); });
      }
    }
    std::vector<Output> handles;
    for (size_t i = 0; i < slots; ++i) handles.push_back(step_.Handle(fmt::format("slots/{}", i), elements_));
    OptimizerUpdates updates(scope, optimizer_, DType::kFloat32, rate, powers[0], powers[1]);
    step_.Effect(updates.Update(params, handles, grads[0]));
  }

  // A float32 scalar, constant where the rate is.
  Output LearningRate() {
    const Scope& scope = step_.scope();
    const ScheduleConfig& schedule = client_.schedule;
    if (IsConstant(schedule)) return scope.Const(static_cast<float>(optimizer_.learning_rate), "learning_rate");
    Output rate;
    // A counter of steps is a scalar of the plan that each step moves on; a rate per round is computed once, in init,
    // from the number of the round that the client writes.
    if (schedule.unit == "step") {
      const Output t = Counting(0, [&](Output now) { return scope.Op("AddV2", {now, Number(scope, 1)}); });
      rate = LearningRateAt(scope, schedule, optimizer_.learning_rate, t);
    } else {
      // Once in a task.
      const std::string name = NewScalar();
      init_.Assign(init_.ScalarHandle(name),
                   LearningRateAt(init_.scope(), schedule, optimizer_.learning_rate, init_.ReadScalar("round")));
      rate = step_.ReadScalar(name);
    }
    return scope.Op("Cast", {rate}, {{"DstT", DType::kFloat32}});
  }

  // A number that `first` starts and every step changes to `next` of it; as it is in the step.
  template <typename Next>
  Output Counting(double first, Next next) {
    const std::string name = NewScalar();
    init_.Assign(init_.ScalarHandle(name), Number(init_.scope(), first));
    const Output handle = step_.ScalarHandle(name);
    const Output now = step_.Read(handle, DType::kFloat64);
    step_.Assign(handle, next(now));
    return now;
  }

  std::string NewScalar() { return fmt::format("scalars/{}", scalars_++); }

  const ClientConfig& client_;
  const OptimizerSpec& optimizer_;
  const int64_t elements_;
  int scalars_ = 0;
  FlatGraph init_, step_;
};

StatusOr<OptimizerSpec> SpecOf(const OptimizerConfig& config) {
  OptimizerSpec spec;
  const auto kind = OptimizerByName(config.kind);
  if (!kind.ok()) return InvalidArgument("client.optimizer.kind: {}", Message(kind.status()));
  spec.kind = *kind;
  spec.learning_rate = config.learning_rate;
  spec.momentum = config.momentum;
  spec.nesterov = config.nesterov;
  spec.rho = config.rho;
  spec.centered = config.centered;
  spec.beta1 = config.beta1;
  spec.beta2 = config.beta2;
  spec.epsilon = config.epsilon;
  spec.initial_accumulator = config.initial_accumulator;
  spec.weight_decay = config.weight_decay;
  RIVULET_RETURN_IF_ERROR(Annotate(CheckOptimizer(spec), "client.optimizer"));
  return spec;
}

// The update is a difference, so that weights the task has not moved are exact zeros, and sums of many clients' small
// changes lose nothing to the weights' size.
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

StatusOr<LocalRule> MakeLocalRule(const ClientConfig& client, const ModelLayout& layout) {
  RIVULET_ASSIGN_OR_RETURN(const OptimizerSpec optimizer, SpecOf(client.optimizer));
  LocalRule rule;
  const int64_t elements = SegmentElements(layout, Segment::kTrainable);
  RIVULET_RETURN_IF_ERROR(RuleBuilder(client, optimizer, elements).Build(rule));
  RIVULET_ASSIGN_OR_RETURN(rule.final, FinalGraph(elements, SegmentElements(layout, Segment::kShared)));
  return rule;
}

// The vocabulary of plans. Clients allocate what these names say and bind nothing else, so a plan cannot reach memory
// that is not its own.
StatusOr<TensorSpec> FlatSpec(std::string_view name, const ModelLayout& layout, int slots, int scalars) {
  const int64_t shared = SegmentElements(layout, Segment::kShared);
  if (shared > 0 && (name == "shared" || name == "base_shared" || name == "update/shared_delta"))
    return TensorSpec{DType::kFloat32, Shape{shared}};
  const auto numbered = [&](std::string_view prefix, int count) {
    if (!name.starts_with(prefix)) return false;
    int number = -1;
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size() && number >= 0 && number < count;
  };
  if (name == "params" || name == "grads" || name == "base_params" || name == "update/delta" ||
      numbered("slots/", slots))
    return TensorSpec{DType::kFloat32, Shape{SegmentElements(layout, Segment::kTrainable)}};
  if (name == "round" || numbered("scalars/", scalars)) return TensorSpec{DType::kFloat64, Shape{}};
  return NotFound("'{}' is no flat variable of a plan with {} slots, {} scalars{}", name, slots, scalars,
                  shared > 0 ? "" : " and no shared variables");
}

}  // namespace rivulet
