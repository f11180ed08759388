// A kind of optimiser: its name, settings, slots and update, in one registered file of kinds/.
//
//   UpdateVariable MomentumUpdates(UpdateScope& scope) {
//     const Output momentum = scope.Scalar("momentum");
//     return [=](const VariableUpdate& update) {
//       return update.Apply("ResourceApplyMomentum", {rate, update.gradient, momentum}); };
//   }
//   RIVULET_OPTIMIZER(momentum_registration, {.name = "momentum", .doc = "…", .settings = {…}, .updates = …});
//
// Its settings are those of OptimizerSpec and the keys client.optimizer.* of scenarios. Reading the registry is
// thread-safe once main has begun.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/settings/optimizer_settings.h"

namespace rivulet {

// A variable with the shape of the optimised one, and its initial value.
struct OptimizerSlot {
  std::string name;
  double initial = 0;
};

// The place to which updates of variables of one type are added, with their shared scalars.
class UpdateScope {
 public:
  UpdateScope(const Scope& scope, const Settings& settings, DType dtype, Output learning_rate, Output beta1_power,
              Output beta2_power)
      : scope_(scope),
        settings_(settings),
        dtype_(dtype),
        learning_rate_(learning_rate),
        beta1_power_(beta1_power),
        beta2_power_(beta2_power) {}

  const Scope& scope() const { return scope_; }
  const Settings& settings() const { return settings_; }  // of the optimiser
  Output learning_rate() const { return learning_rate_; }
  // float64 scalars, beta^t in step t = 1, 2, …, for kinds that correct their bias.
  Output beta1_power() const { return beta1_power_; }
  Output beta2_power() const { return beta2_power_; }

  // A setting, or a number known at construction, as constants of the variables' type.
  Output Scalar(std::string_view setting) const { return Constant(settings_.number(setting), setting); }
  Output Constant(double value, std::string_view name) const;
  // Converts a scalar of the variables' type to float64, or back.
  Output Widened(Output value) const;
  Output Narrowed(Output value) const;

 private:
  Scope scope_;
  const Settings& settings_;
  DType dtype_;
  Output learning_rate_, beta1_power_, beta2_power_;
};

// The update of one variable.
struct VariableUpdate {
  const Scope& scope;
  Output variable;                // a handle
  std::span<const Output> slots;  // handles, in the kind's order
  Output gradient;
  std::string_view name;  // of the node

  // Adds a node of `op` with the inputs variable, slots and `rest`.
  Node* Apply(std::string_view op, std::initializer_list<Output> rest, AttrMap attrs = {}) const;
};
// Adds the node that changes a variable and its slots.
using UpdateVariable = std::function<Node*(const VariableUpdate& update)>;

struct OptimizerKind {
  std::string name;
  std::string doc;                     // completes "`name`: …" in a reference: "PyTorch's Adam"
  std::vector<Setting> settings = {};  // besides learning_rate and weight_decay, which every kind has
  double weight_decay = 0;             // default value
  // True if its updates decay weights themselves. Otherwise weight_decay · variable is added to the gradient.
  bool decays_itself = false;
  // True if it has the settings beta1 and beta2, and its updates need their powers.
  bool corrects_bias = false;
  // Null: it has no slots.
  std::vector<OptimizerSlot> (*slots)(const Settings& settings) = nullptr;
  // Adds shared scalars to the scope. The result adds one update; scope and settings must outlive it.
  UpdateVariable (*updates)(const UpdateScope& scope) = nullptr;
};

// Finds a kind by name. NOT_FOUND names the nearest.
StatusOr<const OptimizerKind*> FindOptimizer(std::string_view name);

// Registers a kind. A check fails if two have the same name.
struct OptimizerRegistration {
  explicit OptimizerRegistration(OptimizerKind kind);
};
#define RIVULET_OPTIMIZER(variable, ...) \
  [[maybe_unused]] static const ::rivulet::OptimizerRegistration variable(::rivulet::OptimizerKind __VA_ARGS__)

}  // namespace rivulet
