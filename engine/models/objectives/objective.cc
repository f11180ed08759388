#include "engine/models/objectives/objective.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/named_registry.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

struct NamedTarget {
  TargetKind kind;
  std::string_view name, usual;
};
constexpr NamedTarget kTargets[] = {{TargetKind::kClass, "class", "sparse_softmax_cross_entropy"},
                                    {TargetKind::kLabels, "labels", "sigmoid_cross_entropy"},
                                    {TargetKind::kNumbers, "numbers", "mse"}};

const NamedTarget& TargetOf(TargetKind kind) { return *std::ranges::find(kTargets, kind, &NamedTarget::kind); }

NamedRegistry<ObjectiveKind>& Objectives() {
  static auto* const objectives = new NamedRegistry<ObjectiveKind>("objectives");
  return *objectives;
}

ObjectiveFunction FunctionFor(const ObjectiveKind& objective, TargetKind kind) {
  switch (kind) {
    case TargetKind::kClass:
      return objective.of_class;
    case TargetKind::kLabels:
      return objective.of_labels;
    case TargetKind::kNumbers:
      return objective.of_numbers;
  }
  return nullptr;
}

}  // namespace

StatusOr<TargetKind> TargetKindFromName(std::string_view name) {
  std::vector<std::string> names;
  for (const NamedTarget& known : kTargets) {
    if (known.name == name) return known.kind;
    names.emplace_back(known.name);
  }
  return InvalidArgument("there are no targets '{}'.{} A model is trained for a {}", name, DidYouMean(name, names),
                         Join(names, ", "));
}

std::string_view NameOf(TargetKind kind) { return TargetOf(kind).name; }

StatusOr<Objective> FindObjective(TargetKind kind, std::string_view name, const SettingValues& given) {
  const ObjectiveKind* const found = Objectives().Find(name);
  const ObjectiveFunction function = found == nullptr ? nullptr : FunctionFor(*found, kind);
  if (function == nullptr) {
    const std::vector<std::string> names = ObjectiveNames(kind);
    return NotFound("there is no objective '{}' for the target \"{}\".{} Objectives for it are {}", name, NameOf(kind),
                    DidYouMean(name, names), Join(names, ", "));
  }
  RIVULET_ASSIGN_OR_RETURN(Settings settings,
                           Settings::Read(found->settings, given, fmt::format("model.objective = \"{}\"", name)));
  return Objective([function, settings = std::move(settings)](const Scope& scope, const ScoredTargets& targets) {
    return function(scope, targets, settings);
  });
}

std::vector<std::string> ObjectiveNames(TargetKind kind) {
  std::vector<std::string> names;
  for (const auto& [name, objective] : Objectives().kinds()) {
    if (FunctionFor(objective, kind) != nullptr) names.push_back(name);
  }
  std::ranges::stable_partition(names, [&](const std::string& name) { return name == TargetOf(kind).usual; });
  return names;
}

bool AreDefaults(std::string_view objective, const SettingValues& given) {
  const ObjectiveKind* const found = Objectives().Find(objective);
  return std::ranges::all_of(given, [&](const auto& named) {
    const Setting* const setting = found == nullptr ? nullptr : FindSetting(found->settings, named.first);
    return setting != nullptr && setting->default_value == named.second;
  });
}

std::optional<int64_t> IgnoredLabel(const SettingValues& given) {
  const auto found = given.find("ignore_label");
  if (found == given.end()) return std::nullopt;
  if (const auto* one = std::get_if<int64_t>(&found->second)) return *one;
  const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
  if (list == nullptr || list->empty()) return std::nullopt;
  return list->front();
}

void ForEachObjective(std::function<void(const ObjectiveKind&)> visit) { Objectives().ForEach(std::move(visit)); }

ObjectiveRegistration::ObjectiveRegistration(ObjectiveKind kind) { Objectives().Add(std::move(kind)); }

Output MeanOf(const Scope& scope, Output values, std::string_view name) {
  Tensor axes(DType::kInt32, Shape{values ? values.shape().rank() : 0});
  for (int axis = 0; values && axis < values.shape().rank(); ++axis)
    axes.flat<int32_t>()[static_cast<size_t>(axis)] = axis;
  return scope.Op("Mean", {values, scope.Const(std::move(axes), fmt::format("{}/axes", name))}, {}, name);
}

Output MeanOfCounted(const Scope& scope, Output values, Output counted, std::string_view name) {
  const Scope s = scope.SubScope(fmt::format("{}_of", name));
  const Output rows = s.Const(Tensor::Of<int32_t>({1}, {0}), "rows");
  const Output sum = s.Op("Sum", {s.Op("Mul", {values, counted}), rows});
  const Output total = s.Op("Maximum", {s.Op("Sum", {counted, rows}), s.Const(1.0f, "one")});
  return scope.Op("RealDiv", {sum, total}, {}, name);
}

Output OneHotOf(const Scope& scope, const ScoredTargets& targets) {
  const Output depth = scope.Const(Tensor::Scalar(static_cast<int32_t>(targets.classes)), "one_hot/depth");
  const Output on = scope.Const(1.0f, "one_hot/on"), off = scope.Const(0.0f, "one_hot/off");
  return scope.Op("OneHot", {targets.target, depth, on, off}, {}, "one_hot");
}

Setting ClassWeights() {
  Setting weights = Integers("class_weights", std::vector<int64_t>(),
                             "How much the examples of each class count, a number for each. Only ratios matter: the "
                             "weights are divided by their mean. The loss stays a mean over examples.")
                        .Between(0, 1e9);
  weights.example = "[0.5, 1.7]";
  weights.default_in_words = "all count the same";
  return weights;
}

Output WeightsOfClasses(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  const std::vector<int64_t>& given = settings.integers("class_weights");
  if (given.empty() || !targets.target) return {};
  const double sum = static_cast<double>(std::accumulate(given.begin(), given.end(), int64_t{0}));
  if (std::ssize(given) != targets.classes || sum == 0) {
    scope.Fail(InvalidArgument(
        "model.class_weights has {} weights, whose sum is {}, and there are {} classes; give one for each, not all 0",
        given.size(), sum, targets.classes));
    return {};
  }
  Tensor weights(DType::kFloat32, Shape{targets.classes});
  std::ranges::transform(given, weights.flat<float>().begin(), [&](int64_t weight) {
    return static_cast<float>(static_cast<double>(weight) * static_cast<double>(targets.classes) / sum);
  });
  return scope.Const(std::move(weights), "class_weights");
}

Output WeightsOfRows(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  const Output weights = WeightsOfClasses(scope, targets, settings);
  if (!weights) return {};
  const Output axis = scope.Const(Tensor::Scalar<int32_t>(0), "class_weights/axis");
  return scope.Op("GatherV2", {weights, targets.target, axis}, {}, "class_weights/rows");
}

}  // namespace rivulet
