#include "engine/optimizers/settings/optimizer_settings.h"

namespace rivulet {
namespace {

Setting WithExample(Setting setting, std::string example) {
  setting.example = std::move(example);
  return setting;
}

Setting Momentum(double usual) {
  return WithExample(
      Float("momentum", usual,
            "Share of the velocity that survives a step: v = momentum · v + g, w = w − learning_rate · v.")
          .AtLeast(0)
          .Below(1),
      "0.5");
}
Setting Nesterov() {
  return WithExample(Flag("nesterov", false, "Looks ahead: w = w − learning_rate · (g + momentum · v)."), "true");
}
Setting Rho() {
  return WithExample(
      Float("rho", 0.9, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1), "0.99");
}
Setting Centered() {
  return WithExample(Flag("centered", false, "Divides by the gradients' deviation instead of their root mean square."),
                     "true");
}
Setting Beta1() {
  return WithExample(Float("beta1", 0.9, "Share of the mean gradient that survives a step.").AtLeast(0).Below(1),
                     "0.8");
}
Setting Beta2() {
  return WithExample(
      Float("beta2", 0.999, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1), "0.99");
}
// Elements whose gradient is always zero, such as padding, would be divided by zero without it.
Setting Epsilon(double usual) {
  return WithExample(Float("epsilon", usual, "Keeps quotients finite; larger values adapt less.").Above(0).Below(1e6),
                     "0.002");
}
Setting InitialAccumulator(double usual) {
  return WithExample(Float("initial_accumulator", usual, "Start of the sums of squares in every task.").Between(0, 1e6),
                     "0.1");
}

// A kind has `own`, and what every kind has.
OptimizerTable Table(std::string name, std::string doc, std::vector<Setting> own, double weight_decay = 0) {
  std::vector<Setting> settings = {Float("learning_rate", 0.01, "Step length.").Between(0, 1e6)};
  settings.insert(settings.end(), own.begin(), own.end());
  settings.push_back(WithExample(
      Float(
          "weight_decay", weight_decay,
          "Adds weight_decay · w to the gradient, after clipping; `adamw` instead multiplies w by 1 − learning_rate · "
          "weight_decay in every step.")
          .Between(0, 1e6),
      "0.0001"));
  return {std::move(name), std::move(doc), std::move(settings)};
}

}  // namespace

// What PyTorch gives a kind that it has, with the learning rate above; momentum 0 for RMSProp, whose epsilon and rho
// are Keras'; Yogi's are its paper's.
const std::vector<OptimizerTable>& OptimizerTables() {
  static const auto* const tables = new std::vector<OptimizerTable>{
      Table("sgd", "descends by the gradient", {}),
      Table("momentum", "SGD with momentum, also Nesterov's", {Momentum(0.9), Nesterov()}),
      Table("adagrad", "PyTorch's Adagrad", {Epsilon(1e-10), InitialAccumulator(0)}),
      Table("rmsprop", "TensorFlow's RMSProp, with epsilon under the root",
            {Momentum(0), Rho(), Centered(), Epsilon(1e-7)}),
      Table("adam", "PyTorch's Adam", {Beta1(), Beta2(), Epsilon(1e-8)}),
      Table("adamw", "PyTorch's AdamW, with decoupled weight decay", {Beta1(), Beta2(), Epsilon(1e-8)}, 0.01),
      Table("adadelta", "PyTorch's Adadelta", {Rho(), Epsilon(1e-6)}),
      Table("yogi", "Yogi as in its paper (Zaheer et al. 2018)",
            {Beta1(), Beta2(), Epsilon(1e-3), InitialAccumulator(1e-6)})};
  return *tables;
}

}  // namespace rivulet
