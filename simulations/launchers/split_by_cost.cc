#include "simulations/launchers/split_by_cost.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace rivulet {

std::vector<std::vector<size_t>> SplitByCost(std::span<const int64_t> costs, std::span<const int64_t> capacities) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  // A process counts as many places as its capacity; ties go to the process with fewer tasks, so that a process with
  // two places does not get both before another has one.
  using Place = std::tuple<int64_t, size_t, size_t>;  // its finish time, number of tasks, and process
  std::priority_queue<Place, std::vector<Place>, std::greater<>> places;
  for (size_t process = 0; process < capacities.size(); ++process) {
    for (int64_t place = 0; place < capacities[process]; ++place) {
      places.emplace(0, static_cast<size_t>(place), process);
    }
  }
  std::vector<std::vector<size_t>> split(capacities.size());
  for (const size_t task : order) {
    const auto [done, tasks, process] = places.top();
    places.pop();
    split[process].push_back(task);
    places.emplace(done + std::max<int64_t>(costs[task], 1), tasks + 1, process);
  }
  for (std::vector<size_t>& tasks : split) std::sort(tasks.begin(), tasks.end());
  return split;
}

}  // namespace rivulet
