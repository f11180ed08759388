#include "engine/optimizers/settings/optimizer_settings.h"

#include <utility>

#include "engine/base/named_registry.h"

namespace rivulet {
namespace {

Setting WithExample(Setting setting, std::string example) {
  setting.example = std::move(example);
  return setting;
}

NamedRegistry<OptimizerTable>& Tables() {
  static auto* const tables = new NamedRegistry<OptimizerTable>("optimizers");
  return *tables;
}

}  // namespace

void RegisterOptimizerTable(OptimizerTable table) { Tables().Add(std::move(table)); }

std::vector<const OptimizerTable*> OptimizerTables() {
  std::vector<const OptimizerTable*> tables;
  for (const auto& [name, table] : Tables().kinds()) tables.push_back(&table);
  return tables;
}

const OptimizerTable* FindOptimizerTable(std::string_view name) { return Tables().Find(name); }

void ForEachOptimizerTable(std::function<void(const OptimizerTable&)> visit) { Tables().ForEach(std::move(visit)); }

Setting MomentumSetting(double usual) {
  return WithExample(
      Float("momentum", usual,
            "Share of the velocity that survives a step: v = momentum · v + g, w = w − learning_rate · v.")
          .AtLeast(0)
          .Below(1),
      "0.5");
}

Setting RhoSetting() {
  return WithExample(
      Float("rho", 0.9, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1), "0.99");
}

Setting Beta1Setting() {
  return WithExample(Float("beta1", 0.9, "Share of the mean gradient that survives a step.").AtLeast(0).Below(1),
                     "0.8");
}

Setting Beta2Setting() {
  return WithExample(
      Float("beta2", 0.999, "Share of the mean square of gradients that survives a step.").AtLeast(0).Below(1), "0.99");
}

// Without it, elements whose gradient is always zero, such as padding, would be divided by zero.
Setting EpsilonSetting(double usual) {
  return WithExample(Float("epsilon", usual, "Keeps quotients finite; larger values adapt less.").Above(0).Below(1e6),
                     "0.002");
}

Setting InitialAccumulatorSetting(double usual) {
  return WithExample(Float("initial_accumulator", usual, "Start of the sums of squares in every task.").Between(0, 1e6),
                     "0.1");
}

}  // namespace rivulet
