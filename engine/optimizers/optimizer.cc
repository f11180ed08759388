#include "engine/optimizers/optimizer.h"

namespace rivulet {

StatusOr<Optimizer> Optimizer::Create(const OptimizerSpec& spec) {
  RIVULET_ASSIGN_OR_RETURN(const OptimizerKind* const kind, FindOptimizer(spec.kind));
  SettingValues given = spec.settings;
  given["learning_rate"] = spec.learning_rate;
  RIVULET_ASSIGN_OR_RETURN(Settings settings,
                           Settings::Read(kind->settings, given, fmt::format("optimizer '{}'", kind->name)));
  return Optimizer(kind, std::move(settings));
}

std::vector<OptimizerSlot> Optimizer::slots() const {
  return kind_->slots == nullptr ? std::vector<OptimizerSlot>() : kind_->slots(settings_);
}

std::optional<std::array<double, 2>> Optimizer::betas() const {
  if (!kind_->corrects_bias) return std::nullopt;
  return std::array<double, 2>{settings_.number("beta1"), settings_.number("beta2")};
}

double OptimizerUpdates::Beta(double beta, DType dtype) {
  return dtype == DType::kFloat64 ? beta : static_cast<double>(static_cast<float>(beta));
}

OptimizerUpdates::OptimizerUpdates(const Scope& scope, const Optimizer& optimizer, DType dtype, Output learning_rate,
                                   Output beta1_power, Output beta2_power)
    : scope_(scope), dtype_(dtype) {
  const UpdateScope shared(scope, optimizer.settings(), dtype, learning_rate, beta1_power, beta2_power);
  update_ = optimizer.kind().updates(shared);
  if (!optimizer.kind().decays_itself && optimizer.weight_decay() > 0) weight_decay_ = shared.Scalar("weight_decay");
}

Node* OptimizerUpdates::Update(Output variable, std::span<const Output> slots, Output gradient, std::string_view name) {
  if (weight_decay_) {
    const Output value = scope_.Op("ReadVariableOp", {variable}, {{"dtype", dtype_}});
    gradient = scope_.Op("AddV2", {gradient, scope_.Op("Mul", {value, weight_decay_})});
  }
  return update_({scope_, variable, slots, gradient, name});
}

}  // namespace rivulet
