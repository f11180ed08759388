#include "engine/optimizers/settings/optimizer_settings.h"

namespace rivulet {
namespace {

Setting Momentum(double usual) {
  return Float("momentum", usual,
               "Share of the velocity that survives a step: v = momentum · v + g, w = w − learning_rate · v.")
      .AtLeast(0)
      .Below(1);
}
Setting Rho() {
  return Float("rho", 0.9, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1);
}
Setting Beta1() { return Float("beta1", 0.9, "Share of the mean gradient that survives a step.").AtLeast(0).Below(1); }
Setting Beta2() {
  return Float("beta2", 0.999, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1);
}
// Elements whose gradient is always zero, such as padding, would be divided by zero without it.
Setting Epsilon(double usual) {
  return Float("epsilon", usual, "Keeps quotients finite; larger values adapt less.").Above(0).Below(1e6);
}
Setting InitialAccumulator(double usual) {
  return Float("initial_accumulator", usual, "What the sums of squares start with in every task.").Between(0, 1e6);
}

// A kind has `own`, and what every kind has.
OptimizerTable Table(std::string name, std::vector<Setting> own, double weight_decay = 0) {
  std::vector<Setting> settings = {Float("learning_rate", 0.01, "Step length.").Between(0, 1e6)};
  settings.insert(settings.end(), own.begin(), own.end());
  settings.push_back(Float("weight_decay", weight_decay,
                           "Adds weight_decay · w to the gradient, after clipping; `adamw` instead multiplies w by 1 − "
                           "learning_rate · weight_decay in every step.")
                         .Between(0, 1e6));
  return {std::move(name), std::move(settings)};
}

}  // namespace

// What PyTorch gives a kind that it has, with the learning rate above; momentum 0 for RMSProp, whose epsilon and rho
// are Keras'; Yogi's are its paper's.
const std::vector<OptimizerTable>& OptimizerTables() {
  static const auto* const tables = new std::vector<OptimizerTable>{
      Table("sgd", {}),
      Table("momentum",
            {Momentum(0.9), Flag("nesterov", false, "Looks ahead: w = w − learning_rate · (g + momentum · v).")}),
      Table("adagrad", {Epsilon(1e-10), InitialAccumulator(0)}),
      Table("rmsprop",
            {Momentum(0), Rho(),
             Flag("centered", false, "Divides by the gradients' deviation instead of their root mean square."),
             Epsilon(1e-7)}),
      Table("adam", {Beta1(), Beta2(), Epsilon(1e-8)}),
      Table("adamw", {Beta1(), Beta2(), Epsilon(1e-8)}, 0.01),
      Table("adadelta", {Rho(), Epsilon(1e-6)}),
      Table("yogi", {Beta1(), Beta2(), Epsilon(1e-3), InitialAccumulator(1e-6)})};
  return *tables;
}

}  // namespace rivulet
