// Optimisers: their settings, their slots, and the node that updates one variable. ApplyGradients builds a training
// step of them; a federated plan applies one to the whole model as a flat variable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

struct OptimizerSpec {
  enum class Kind { kSgd, kMomentum, kAdagrad, kRmsProp, kAdam, kAdamW, kAdadelta, kYogi };
  Kind kind = Kind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0.9;           // kMomentum: accumulator = momentum · accumulator + gradient; kRmsProp
  bool nesterov = false;           // kMomentum: moves by gradient + momentum · accumulator
  double rho = 0.9;                // kRmsProp, kAdadelta: share of a mean square that survives a step
  bool centered = false;           // kRmsProp: divides by the deviation instead of the root mean square
  double beta1 = 0.9;              // kAdam, kAdamW, kYogi: decay of the first moment
  double beta2 = 0.999;            // and of the second
  double epsilon = 1e-8;           // all adaptive kinds: positive
  double initial_accumulator = 0;  // kAdagrad, kYogi: what the sums of squares start with
  double weight_decay = 0;         // adds weight_decay · variable to the gradient; kAdamW shrinks the variable instead

  // With what is usual for the kind (engine/optimizers/settings).
  static OptimizerSpec Of(Kind kind);
  // With the values that the kind's own settings have in `settings`.
  static OptimizerSpec Of(Kind kind, const Settings& settings);
};

std::string_view Name(OptimizerSpec::Kind kind);                       // "sgd", "momentum", "adagrad", "rmsprop", …
StatusOr<OptimizerSpec::Kind> OptimizerByName(std::string_view name);  // NOT_FOUND names the nearest

// INVALID_ARGUMENT: a setting of this kind that is out of its range in OptimizerTables().
Status CheckOptimizer(const OptimizerSpec& optimizer);

// A variable as large as the one that is optimised, and its first value.
struct OptimizerSlot {
  std::string name;
  double initial = 0;
};
std::vector<OptimizerSlot> SlotsOf(const OptimizerSpec& optimizer);
// Whether steps must be told how often beta1 and beta2 have decayed.
bool CorrectsBias(const OptimizerSpec& optimizer);

// Adds updates that share their scalars.
class OptimizerUpdates {
 public:
  // `learning_rate` is a scalar of `dtype`, the variables' type. Where CorrectsBias, `beta1_power` and `beta2_power`
  // are float64 scalars, beta^t in step t = 1, 2, …: their distance from 1 would be lost in float32.
  OptimizerUpdates(const Scope& scope, const OptimizerSpec& optimizer, DType dtype, Output learning_rate,
                   Output beta1_power = {}, Output beta2_power = {});
  // The node that changes `variable` and `slots` (handles, as SlotsOf says) by `gradient`. Errors go to the scope.
  Node* Update(Output variable, std::span<const Output> slots, Output gradient, std::string_view name = {});

  // What beta1 and beta2 are in the kernels: as near as `dtype` comes.
  static double Beta(double beta, DType dtype);

 private:
  Output Scalar(double value, std::string_view name);

  Scope scope_;
  OptimizerSpec optimizer_;
  DType dtype_;
  Output learning_rate_, momentum_, rho_, epsilon_, beta1_, beta2_, no_power_, weight_decay_;
};

}  // namespace rivulet
