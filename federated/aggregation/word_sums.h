// An aggregation by way of words, as in secure aggregation: each update is aggregated alone, and its words are added
// modulo 2^sum_bits. The sums equal those of the rule itself to the bit.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet {

// `total` and `one` are new, of one spec and of one rule with sums. `total` receives merged sums; `one` holds one
// update at a time.
std::unique_ptr<Aggregation> SumByWords(std::unique_ptr<Aggregation> total, std::unique_ptr<Aggregation> one);

// The rule of a secure sum's spec alone, which adds updates without words. Errors as Aggregation::Create.
StatusOr<std::unique_ptr<Aggregation>> RuleWithoutWords(const AggregationSpec& spec);

}  // namespace rivulet
