// What an algorithm decides of a plan. Algorithms compose it (federated/algorithms), Plan::Build writes it down.
#pragma once

#include "federated/aggregation/aggregation_spec.h"
#include "federated/plan/local_rules.h"

namespace rivulet {

struct Composition {
  LocalRule local;              // what a client does once it knows a gradient, and what it sends
  AggregationSpec aggregation;  // how updates are summed, with the bounds that the plan states
};

}  // namespace rivulet
