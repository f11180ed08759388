#include "setup/partitioners/by_label.h"

#include <algorithm>
#include <numeric>

namespace rivulet {

LabelAssignment DealSizes(const std::vector<std::vector<uint32_t>>& piles, int64_t clients, const LabelLaw& law) {
  LabelAssignment assignment;
  assignment.ends.resize(static_cast<size_t>(clients));
  for (size_t label = 0; label < piles.size(); ++label) {
    law(label).Cut(piles[label].size(), [&](int64_t client, uint64_t begin, uint64_t end) {
      assignment.ends[static_cast<size_t>(client)] += end - begin;
    });
  }
  const auto smallest = std::min_element(assignment.ends.begin(), assignment.ends.end());
  assignment.smallest = smallest - assignment.ends.begin();
  assignment.fewest = *smallest;
  std::partial_sum(assignment.ends.begin(), assignment.ends.end(), assignment.ends.begin());
  return assignment;
}

Shares DealByLabel(const std::vector<std::vector<uint32_t>>& piles, LabelAssignment assignment, const LabelLaw& law) {
  std::vector<uint32_t> examples(assignment.ends.empty() ? 0 : assignment.ends.back());
  std::vector<uint64_t> next(assignment.ends.size());  // position of a client's next example
  for (size_t client = 1; client < next.size(); ++client) next[client] = assignment.ends[client - 1];
  for (size_t label = 0; label < piles.size(); ++label) {
    const std::vector<uint32_t>& pile = piles[label];
    law(label).Cut(pile.size(), [&](int64_t client, uint64_t begin, uint64_t end) {
      uint64_t& place = next[static_cast<size_t>(client)];
      std::copy(pile.begin() + static_cast<std::ptrdiff_t>(begin), pile.begin() + static_cast<std::ptrdiff_t>(end),
                examples.begin() + static_cast<std::ptrdiff_t>(place));
      place += end - begin;
    });
  }
  return Shares::OfNumbered(std::move(assignment.ends), std::move(examples));
}

}  // namespace rivulet
