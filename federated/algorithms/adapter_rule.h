// Aggregation of low-rank adapters: the rules of server.lora, one registered file each (adapters_NAME.cc).
//
// By default, updates of A and B are summed separately. But the mean of A times the mean of B is not the mean of the
// products. A rule accepts or removes this difference. It changes the composition, or refuses the scenario.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/adapter_pairs.h"

namespace rivulet {

struct AdapterContext {
  const Scenario& scenario;
  const std::vector<AdapterPair>& pairs;    // of the model's own variables
  const std::vector<std::string>& in_base;  // AdapterHalvesInBase; `pairs` or `in_base` is not empty
};

struct AdapterRule {
  std::string name;  // the value of server.lora
  std::string doc;   // a phrase that continues the name, "averages A and B"
  // INVALID_ARGUMENT names the key that cannot be combined with the rule.
  Status (*compose)(const AdapterContext& context, Composition& composition) = nullptr;
};

struct AdapterRuleRegistration {
  explicit AdapterRuleRegistration(AdapterRule rule);
};
#define RIVULET_ADAPTER_RULE(variable, ...) \
  [[maybe_unused]] static const ::rivulet::AdapterRuleRegistration variable(::rivulet::AdapterRule __VA_ARGS__)

// Applies server.lora ("average" by default). Call when parts, rule, noise and secure sums are known. Models without
// adapters are unchanged. INVALID_ARGUMENT: server.lora without adapters; noise in updates of both A and B, whose
// product would multiply it; anything that the rule refuses.
Status ComposeAdapters(const Scenario& scenario, const ModelLayout& layout, Composition& composition);

}  // namespace rivulet
