#include "federated/plan/local_rules.h"

#include <utility>
#include <vector>

#include "engine/optimizers/optimizer.h"
#include "engine/optimizers/transform_gradients.h"
#include "federated/plan/frozen_rounds.h"
#include "federated/plan/learning_rate.h"
#include "federated/plan/number.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

// Adds the nodes of one rule to both graphs. The rule uses one flat vector, so an optimiser is one
// node over the whole model instead of one per variable, and a plan's size does not grow with the
// model.
class RuleBuilder {
 public:
  RuleBuilder(const ClientConfig& client, const Optimizer& optimizer, const LearningRate& rate,
              const ModelLayout& layout, std::string_view trains, OwnMemory own)
      : client_(client),
        optimizer_(optimizer),
        rate_(rate),
        layout_(layout),
        trains_(trains),
        own_(own),
        scalars_(own.scalars),
        begin_(layout),
        step_(layout) {}

  Status Build(const LocalGradient& gradient, LocalRule& rule) {
    RIVULET_ASSIGN_OR_RETURN(frozen_, ReadFrozen(client_.frozen, layout_));
    for (int i = 0; i < own_.slots; ++i) BeginSlot(SlotName(i), 0);
    for (int i = 0; i < own_.scalars; ++i) {
      begin_.Assign(fmt::format("scalars/{}", i), Number(begin_.scope(), 0));
    }
    const std::vector<OptimizerSlot> slots = optimizer_.slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      BeginSlot(SlotName(own_.slots + static_cast<int>(i)), slots[i].initial);
    }
    Step(static_cast<int>(slots.size()), gradient);
    rule.slots = own_.slots + static_cast<int>(slots.size());
    rule.scalars = scalars_;
    RIVULET_ASSIGN_OR_RETURN(rule.begin, std::move(begin_).Finish());
    RIVULET_ASSIGN_OR_RETURN(rule.step, std::move(step_).Finish());
    return absl::OkStatus();
  }

 private:
  static std::string SlotName(int i) { return fmt::format("slots/{}", i); }

  void BeginSlot(const std::string& slot, double initial) {
    const Scope& scope = begin_.scope();
    // Zeros made from an existing vector: no constant as large as the model, in the plan or in memory.
    Output first = scope.Op("ZerosLike", {begin_.Read(slot)});
    if (initial != 0) first = scope.Op("AddV2", {first, scope.Const(static_cast<float>(initial), "first")});
    begin_.Assign(slot, first);
  }

  void Step(int slots, const LocalGradient& gradient) {
    const Scope& scope = step_.scope();
    const Output params = step_.Handle(trains_);
    std::vector<Output> grads = {gradient ? gradient(step_) : step_.grads()};
    for (const FrozenRounds& frozen : frozen_) grads[0] = WithoutFrozen(frozen, grads[0]);
    const OptimizerConfig& config = client_.optimizer;
    if (config.clip_value > 0) grads = ClipGradientsByValue(scope, grads, config.clip_value);
    if (config.clip_norm > 0) grads = ClipGradientsByNorm(scope, grads, config.clip_norm);
    if (grads.empty()) return;  // the scope has the error
    const Output rate = RateOfStep();
    Output powers[2];
    if (const auto betas = optimizer_.betas()) {
      for (size_t k = 0; k < 2; ++k) {
        const double beta = OptimizerUpdates::Beta((*betas)[k], DType::kFloat32);
        powers[k] = Counting(beta, [&](Output now) { return scope.Op("Mul", {now, Number(scope, beta)}); });
      }
    }
    std::vector<Output> handles;
    for (int i = 0; i < slots; ++i) handles.push_back(step_.Handle(SlotName(own_.slots + i)));
    OptimizerUpdates updates(scope, optimizer_, DType::kFloat32, rate, powers[0], powers[1]);
    step_.Effect(updates.Update(params, handles, grads[0]));
  }

  // Whether this round trains them is computed once per task.
  Output WithoutFrozen(const FrozenRounds& frozen, Output grads) {
    const std::string name = NewScalar();
    begin_.Assign(name, TrainedFactor(begin_.scope(), frozen, begin_.Read("round")));
    const Output factor = step_.scope().Op("Cast", {step_.Read(name)}, {{"DstT", DType::kFloat32}});
    const auto elements = static_cast<int64_t>(layout_.trained_bytes() / sizeof(float));
    return ScaleStretches(step_.scope(), frozen, grads, elements, factor);
  }

  // A float32 scalar; a constant if the rate is constant.
  Output RateOfStep() {
    const Scope& scope = step_.scope();
    const ScheduleConfig& schedule = client_.schedule;
    if (IsConstant(schedule)) return scope.Const(static_cast<float>(optimizer_.learning_rate()), "learning_rate");
    Output rate;
    // The step counter is a scalar of the plan that each step increments; a rate per round is computed once, in begin,
    // from the round number that the client sets.
    if (schedule.unit == "step") {
      const Output t = Counting(0, [&](Output now) { return scope.Op("AddV2", {now, Number(scope, 1)}); });
      rate = rate_.At(scope, t);
    } else {
      // Computed once per task.
      const std::string name = NewScalar();
      begin_.Assign(name, rate_.At(begin_.scope(), begin_.Read("round")));
      rate = step_.Read(name);
    }
    return scope.Op("Cast", {rate}, {{"DstT", DType::kFloat32}});
  }

  // A number with the initial value `first` that every step replaces by `next`; returns its value in the step.
  template <typename Next>
  Output Counting(double first, Next next) {
    const std::string name = NewScalar();
    begin_.Assign(name, Number(begin_.scope(), first));
    const Output now = step_.Read(name);
    step_.Assign(name, next(now));
    return now;
  }

  std::string NewScalar() { return fmt::format("scalars/{}", scalars_++); }

  const ClientConfig& client_;
  const Optimizer& optimizer_;
  const LearningRate& rate_;
  const ModelLayout& layout_;
  std::vector<FrozenRounds> frozen_;
  const std::string_view trains_;
  const OwnMemory own_;
  int scalars_ = 0;
  FlatScope begin_, step_;
};

// Options of other kinds may be present, as in every section for pieces.
StatusOr<Optimizer> OptimizerOf(const OptimizerConfig& config) {
  const auto kind = FindOptimizer(config.kind);
  if (!kind.ok()) return InvalidArgument("client.optimizer.kind: {}", Message(kind.status()));
  const SettingTable table = {.settings = (*kind)->settings};
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(table, config.settings, "client.optimizer"));
  return Optimizer::Create({config.kind, config.learning_rate, settings.values()});
}

}  // namespace

StatusOr<LocalRule> MakeLocalRule(const ClientConfig& client, const ModelLayout& layout, const LocalGradient& gradient,
                                  std::string_view trains, OwnMemory own) {
  RIVULET_ASSIGN_OR_RETURN(const Optimizer optimizer, OptimizerOf(client.optimizer));
  if (!client.frozen.empty() && optimizer.weight_decay() > 0) {
    return InvalidArgument(
        "client.frozen keeps variables where they are, and client.optimizer.weight_decay is {}, which would draw them "
        "to zero; set it to 0",
        optimizer.weight_decay());
  }
  RIVULET_ASSIGN_OR_RETURN(const LearningRate rate, LearningRate::Create(client.schedule, optimizer.learning_rate()));
  LocalRule rule;
  RIVULET_RETURN_IF_ERROR(RuleBuilder(client, optimizer, rate, layout, trains, own).Build(gradient, rule));
  return rule;
}

}  // namespace rivulet
