// Training objectives of a model: the kinds of targets in its examples, and the losses for each kind. An objective is
// one registered file of this folder, with its settings and a function for each kind of target that it takes.
//
//   RIVULET_OBJECTIVE(mse_registration, {.name = "mse", .doc = "…", .settings = {…}, .of_numbers = SquaredErrors});
//
// Its settings are the keys model.* of scenarios that stand beside model.objective. Reading the registry is thread-safe
// once main has begun.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/scope.h"

namespace rivulet {

enum class TargetKind : uint8_t {
  kClass,    // "class": the number of one class, int64 [?], or one for each position, [?,positions]
  kLabels,   // "labels": int64 of the scores' shape, 1 where the example has that label and 0 where it has not
  kNumbers,  // "numbers": float32 of the model's output's shape
};
StatusOr<TargetKind> TargetKindFromName(std::string_view name);  // INVALID_ARGUMENT lists them
std::string_view NameOf(TargetKind kind);

// Scores and targets of one batch: rows of one score per class, and the class of each row; or both of one shape.
struct ScoredTargets {
  Output scores, target;
  int64_t classes = 0;    // of kClass
  Output counted = {};    // of kClass: 1 for a row that counts and 0 for one that does not, float32; empty: all do
  int64_t positions = 1;  // of kClass: rows of one example
};

// The loss of each element, or of each row, whose mean training minimises.
using Objective = std::function<Output(const Scope& scope, const ScoredTargets& targets)>;
// The same, with the objective's settings, checked and completed. What they cannot be is said by Scope::Fail.
using ObjectiveFunction = Output (*)(const Scope& scope, const ScoredTargets& targets, const Settings& settings);

struct ObjectiveKind {
  std::string name;
  std::string doc;  // completes "`name`: …" in a reference
  std::vector<Setting> settings = {};
  ObjectiveFunction of_class = nullptr, of_labels = nullptr, of_numbers = nullptr;  // null: not for such targets
};

// With its settings, of which `given` may hold some. NOT_FOUND lists the objectives for targets of this kind;
// INVALID_ARGUMENT as Settings::Read.
StatusOr<Objective> FindObjective(TargetKind kind, std::string_view name, const SettingValues& given = {});
std::vector<std::string> ObjectiveNames(TargetKind kind);  // the usual one first
// Whether these settings of the objective are its defaults, as a stored scenario names them all.
bool AreDefaults(std::string_view objective, const SettingValues& given);
// The setting "ignore_label" of those that an objective has taken. Nothing: every label counts.
std::optional<int64_t> IgnoredLabel(const SettingValues& given);
// Calls `visit` for every objective, those that will be registered included.
void ForEachObjective(std::function<void(const ObjectiveKind&)> visit);

struct ObjectiveRegistration {
  explicit ObjectiveRegistration(ObjectiveKind kind);
};
#define RIVULET_OBJECTIVE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ObjectiveRegistration variable(::rivulet::ObjectiveKind __VA_ARGS__)

// The mean over the rows that count, 0 where none does, as the node `name`.
Output MeanOfCounted(const Scope& scope, Output values, Output counted, std::string_view name);
// The mean over all elements, as the node `name`.
Output MeanOf(const Scope& scope, Output values, std::string_view name);
// One for the label's class, zero for the others, and no gradient.
Output OneHotOf(const Scope& scope, const ScoredTargets& targets);

// The setting "class_weights", the weights as floats, [classes], and that of each row's class, [rows]: integers of
// which ratios count, as they are divided by their mean. Empty where none are given.
Setting ClassWeights();
Output WeightsOfClasses(const Scope& scope, const ScoredTargets& targets, const Settings& settings);
Output WeightsOfRows(const Scope& scope, const ScoredTargets& targets, const Settings& settings);

}  // namespace rivulet
