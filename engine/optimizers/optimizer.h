// Optimisers: their settings, their slots, and the node that updates one variable. ApplyGradients builds a training
// step from them; a federated plan applies one to the whole model as a flat variable. Each is a file of kinds/.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/kind.h"

namespace rivulet {

struct OptimizerSpec {
  std::string kind = "sgd";  // as registered: "sgd", "momentum", "adagrad", "rmsprop", "adam", …
  double learning_rate = 0.01;
  SettingValues settings = {};  // further given settings: {{"beta1", 0.8}}
};

// A checked spec, with its kind's defaults for missing settings. Immutable.
class Optimizer {
 public:
  // NOT_FOUND: an unknown kind (names the nearest). INVALID_ARGUMENT: a setting that is out of range, or that the kind
  // does not have.
  static StatusOr<Optimizer> Create(const OptimizerSpec& spec);

  const OptimizerKind& kind() const { return *kind_; }
  const Settings& settings() const { return settings_; }
  double learning_rate() const { return settings_.number("learning_rate"); }
  double weight_decay() const { return settings_.number("weight_decay"); }
  std::vector<OptimizerSlot> slots() const;
  // beta1 and beta2, if updates need their powers.
  std::optional<std::array<double, 2>> betas() const;

 private:
  Optimizer(const OptimizerKind* kind, Settings settings) : kind_(kind), settings_(std::move(settings)) {}

  const OptimizerKind* kind_;
  Settings settings_;
};

// Adds updates that share scalars. The optimiser must outlive it.
class OptimizerUpdates {
 public:
  // `learning_rate` is a scalar of `dtype`, the variables' type. If there are betas, `beta1_power` and `beta2_power`
  // are float64 scalars, beta^t in step t = 1, 2, …: float32 would lose their distance from 1.
  OptimizerUpdates(const Scope& scope, const Optimizer& optimizer, DType dtype, Output learning_rate,
                   Output beta1_power = {}, Output beta2_power = {});
  // Adds a node that changes `variable` and `slots` (as Optimizer::slots) by `gradient`. Errors go to the scope.
  Node* Update(Output variable, std::span<const Output> slots, Output gradient, std::string_view name = {});

  // Returns the value of beta1 or beta2 in the kernels: the nearest number of type `dtype`.
  static double Beta(double beta, DType dtype);

 private:
  Scope scope_;
  DType dtype_;
  UpdateVariable update_;
  Output weight_decay_;  // empty: gradients are not changed
};

}  // namespace rivulet
