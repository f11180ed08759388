#include "coordinator/sum_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace rivulet {

std::string SumDifference::Read(std::set<std::string> clients) {
  const std::set<std::string> before = std::exchange(before_, std::move(clients));
  if (before.empty()) return "";
  std::vector<std::string> differ;
  std::ranges::set_symmetric_difference(before, before_, std::back_inserter(differ));
  const auto count = static_cast<int64_t>(differ.size());
  if (count == 0 || count >= least_) return "";
  return fmt::format(
      "this sum and the previous one differ by {} client{}, fewer than privacy.min_survivors = {}. Their difference "
      "reveals a sum of {} alone. Noise bounds that (algorithm.name = \"dp_fedavg\")",
      count, count == 1 ? "" : "s", least_, count == 1 ? "this client" : "these clients");
}

}  // namespace rivulet
