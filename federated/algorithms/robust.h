// Federated averaging with another aggregation rule than the mean (federated/aggregation/), shared by the robust
// algorithms.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "federated/algorithms/algorithm.h"

namespace rivulet {

// All updates have the same weight, because weights would be the clients' own unverified claims.
inline StatusOr<Composition> FedAvgBy(std::string rule, std::map<std::string, double> settings,
                                      const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  AggregationSpec& aggregation = composition.aggregation;
  aggregation.rule = std::move(rule);
  aggregation.rule_settings = std::move(settings);
  aggregation.parts = {{.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
  return composition;
}

}  // namespace rivulet
