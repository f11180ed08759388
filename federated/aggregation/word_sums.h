// A rule's sums by way of words, as secure aggregation makes them: each update is folded alone, and its words are added
// modulo 2^sum_bits. The sums are those of the rule itself, to the bit.
#pragma once

#include <memory>

#include "federated/aggregation/aggregation.h"

namespace rivulet {

// `total` and `one` are new, of one spec and of one rule that has sums. `total` holds what is merged; `one` folds one
// update at a time.
std::unique_ptr<Aggregation> SumByWords(std::unique_ptr<Aggregation> total, std::unique_ptr<Aggregation> one);

}  // namespace rivulet
