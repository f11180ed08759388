// Partition of each label's examples among the clients by a separate distribution per label.
#pragma once

#include <functional>

#include "setup/partitioners/partitioner.h"
#include "setup/partitioners/proportions.h"

namespace rivulet {

// Which clients get how much of a label, by its place among the labels in increasing order. Called anew for each pass.
using LabelLaw = std::function<Proportions(size_t label)>;

struct LabelAssignment {
  std::vector<uint64_t> ends;  // of each client's part
  int64_t smallest = 0;        // the client with the fewest examples, and how many
  uint64_t fewest = 0;
};

// How much each client gets when the piles are cut by `law`.
LabelAssignment DealSizes(const std::vector<std::vector<uint32_t>>& piles, int64_t clients, const LabelLaw& law);
// The shares: each client's examples stand label by label. Holds 8 bytes a client beside them.
Shares DealByLabel(const std::vector<std::vector<uint32_t>>& piles, LabelAssignment assignment, const LabelLaw& law);

}  // namespace rivulet
