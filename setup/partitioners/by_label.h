// Partition of each label's examples among the clients by a separate distribution per label.
#pragma once

#include <functional>

#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/proportions.h"

namespace rivulet {

// The clients' shares of a label, by the label's place in increasing order. Called again for each pass.
using LabelLaw = std::function<Proportions(size_t label)>;

struct LabelAssignment {
  std::vector<uint64_t> ends;  // of each client's part
  int64_t smallest = 0;        // the client with the fewest examples, and their number
  uint64_t fewest = 0;
};

// The number of examples of each client if `law` divides the piles.
LabelAssignment DealSizes(const std::vector<std::vector<uint32_t>>& piles, int64_t clients, const LabelLaw& law);
// The shares, each client's examples sorted by label. Holds 8 bytes per client beside them.
Shares DealByLabel(const std::vector<std::vector<uint32_t>>& piles, LabelAssignment assignment, const LabelLaw& law);

}  // namespace rivulet
