// Loss scaling as graph logic. The loss is multiplied by a scale before it is differentiated, so that small gradients
// are not lost in 16 bits. The step divides the gradients by it again, and skips an update whose gradients are not all
// finite. A kind of scaling is its name, options and nodes, in one registered file:
//
//   RIVULET_LOSS_SCALING(static_registration, {.name = "static", .doc = "…", .settings = {…}, .first = FirstScale});
//
// The options are keys of [client.loss_scale]; parsing, ranges, messages and docs/reference/scenario.md are derived
// from them. Lookups are thread-safe once main has started.
#pragma once

#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "federated/plan/local_rules.h"
#include "federated/scenario/scenario.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {

inline constexpr double kSmallestLossScale = 1, kLargestLossScale = 1 << 24;

// Builder for the end of a step with a scaled loss, where a kind adds nodes that change the scale.
class LossScaleUpdate {
 public:
  LossScaleUpdate(const Scope& scope, LocalRule& rule, Output scale_handle, Output scale, Output finite)
      : scope_(scope), rule_(rule), scale_handle_(scale_handle), scale_(scale), finite_(finite) {}

  const Scope& scope() const { return scope_; }
  Output scale() const { return scale_; }    // of this step, a float64 scalar
  Output finite() const { return finite_; }  // whether all gradients of this step are
  // Sets the scale of the next step.
  Status SetScale(Output value) { return Assign(scale_handle_, value); }

  // Adds a float64 variable of the task and returns its handle; `first` is its value before the first step.
  StatusOr<Output> AddScalar(double first);
  Output Read(Output scalar) const;
  Status Assign(Output scalar, Output value);

 private:
  Scope scope_;
  LocalRule& rule_;
  Output scale_handle_, scale_, finite_;
};

struct LossScaling {
  std::string name;
  std::string doc;  // completes "`name`: …" in the reference
  std::vector<Setting> settings = {};
  // Returns the scale of a task's first step. Null: losses are not scaled.
  double (*first)(const Settings& settings) = nullptr;
  // Adds nodes that change the scale after a step. Null: the scale is constant.
  Status (*adapt)(const Settings& settings, LossScaleUpdate& update) = nullptr;
};

// Also registers the table ("loss scale", name). CHECK fails if two have one name.
struct LossScalingRegistration {
  explicit LossScalingRegistration(LossScaling scaling);
};
#define RIVULET_LOSS_SCALING(variable, ...) \
  [[maybe_unused]] static const ::rivulet::LossScalingRegistration variable(::rivulet::LossScaling __VA_ARGS__)

// The option "scale".
Setting LossScaleSetting(std::string doc);

// Adds loss scaling to a finished rule: one scalar for the scale, and those of the kind, each with its first value in
// `begin`. Returns the scale's name ("scalars/2"), by which the client scales the loss, or "" if the kind does not
// scale. INVALID_ARGUMENT: an unknown kind, an option out of range.
StatusOr<std::string> AddLossScale(const LossScaleConfig& config, LocalRule& rule);

}  // namespace rivulet
