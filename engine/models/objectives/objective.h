// Training objectives of a model: the kinds of targets in its examples, and the losses for each kind. An objective is
// one registered file of this folder, with its settings and a function for each kind of target that it supports.
//
//   RIVULET_OBJECTIVE(mse_registration, {.name = "mse", .doc = "…", .settings = {…}, .of_numbers = SquaredErrors});
//
// Its settings are the keys model.* of scenarios beside model.objective. Reading the registry is thread-safe once main
// has begun.
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
  kClass,    // "class": the number of one class, int64 [?], or one per position, [?,positions]
  kLabels,   // "labels": int64 of the scores' shape, 1 if the example has the label, else 0
  kNumbers,  // "numbers": float32 of the shape of the model's output
};
StatusOr<TargetKind> TargetKindFromName(std::string_view name);  // INVALID_ARGUMENT lists them
std::string_view NameOf(TargetKind kind);

// Scores and targets of one batch: rows with a score per class, and each row's class; or two tensors of one shape.
struct ScoredTargets {
  Output scores, target;
  int64_t classes = 0;    // of kClass
  Output counted = {};    // of kClass: float32, 1 for a row that counts, else 0; if empty, all count
  int64_t positions = 1;  // of kClass: rows per example
};

// Computes the loss of each element or row; training minimises the mean.
using Objective = std::function<Output(const Scope& scope, const ScoredTargets& targets)>;
// The same, with the objective's settings, checked and complete. It reports invalid combinations with Scope::Fail.
using ObjectiveFunction = Output (*)(const Scope& scope, const ScoredTargets& targets, const Settings& settings);

struct ObjectiveKind {
  std::string name;
  std::string doc;  // completes "`name`: …" in a reference
  std::vector<Setting> settings = {};
  ObjectiveFunction of_class = nullptr, of_labels = nullptr, of_numbers = nullptr;  // null: kind not supported
};

// Finds an objective and applies the settings `given`; the others have defaults. NOT_FOUND lists the objectives for
// targets of this kind. INVALID_ARGUMENT as Settings::Read.
StatusOr<Objective> FindObjective(TargetKind kind, std::string_view name, const SettingValues& given = {});
std::vector<std::string> ObjectiveNames(TargetKind kind);  // the default first
// Returns true if these settings are the objective's defaults, as in a stored scenario, which lists all of them.
bool AreDefaults(std::string_view objective, const SettingValues& given);
// Returns the setting "ignore_label". nullopt: every label counts.
std::optional<int64_t> IgnoredLabel(const SettingValues& given);
// Calls `visit` for every objective, including objectives that are registered later.
void ForEachObjective(std::function<void(const ObjectiveKind&)> visit);

struct ObjectiveRegistration {
  explicit ObjectiveRegistration(ObjectiveKind kind);
};
#define RIVULET_OBJECTIVE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ObjectiveRegistration variable(::rivulet::ObjectiveKind __VA_ARGS__)

// Adds the node `name`: the mean over the rows that count, 0 if there are none.
Output MeanOfCounted(const Scope& scope, Output values, Output counted, std::string_view name);
// Adds the node `name`: the mean over all elements.
Output MeanOf(const Scope& scope, Output values, std::string_view name);
// Returns one for the label's class and zero for the others, without a gradient.
Output OneHotOf(const Scope& scope, const ScoredTargets& targets);

// The setting "class_weights"; the weights as floats, [classes]; and the weight of each row's class, [rows]. The
// setting has integers whose ratios matter: they are divided by their mean. The tensors are empty without the setting.
Setting ClassWeights();
Output WeightsOfClasses(const Scope& scope, const ScoredTargets& targets, const Settings& settings);
Output WeightsOfRows(const Scope& scope, const ScoredTargets& targets, const Settings& settings);

}  // namespace rivulet
