#include "dataflow/placement/list_schedule.h"

#include <algorithm>

namespace rivulet {

void ListSchedule(std::span<Node* const> order, std::vector<ListScheduleNode>& nodes, const CostModel& costs,
                  size_t devices) {
  const auto entry = [&](const Node* node) -> ListScheduleNode& { return nodes[static_cast<size_t>(node->id())]; };
  const auto transfer = [&](const Output& output) { return costs.TransferSeconds(costs.Bytes(output)); };

  std::vector<double> rank(nodes.size(), 0.0);  // from the node's end; after its visit, from its start
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node* node = *it;
    double& mine = rank[static_cast<size_t>(node->id())];
    if (!entry(node).left_out) mine += costs.Seconds(*node);
    const auto reach = [&](const Node* input, double seconds) {
      double& theirs = rank[static_cast<size_t>(input->id())];
      theirs = std::max(theirs, seconds + mine);
    };
    for (const Output& input : node->inputs()) reach(input.node, transfer(input));
    for (const Node* before : node->control_inputs()) reach(before, costs.TransferSeconds(0));
  }
  std::vector<const Node*> by_rank;
  for (const Node* node : order)
    if (!entry(node).left_out) by_rank.push_back(node);
  std::stable_sort(by_rank.begin(), by_rank.end(), [&](const Node* a, const Node* b) {
    return rank[static_cast<size_t>(a->id())] > rank[static_cast<size_t>(b->id())];
  });

  std::vector<double> idle_from(devices, 0.0);
  std::vector<int> group_device(nodes.size(), -1);
  for (const ListScheduleNode& node : nodes)
    if (node.device >= 0) group_device[static_cast<size_t>(node.group)] = node.device;
  for (const Node* node : by_rank) {
    ListScheduleNode& mine = entry(node);
    const auto finish_on = [&](int device) {
      double ready = idle_from[static_cast<size_t>(device)];
      const auto wait_for = [&](const Node* input, double seconds) {
        const ListScheduleNode& other = entry(input);
        if (other.left_out) return;
        ready = std::max(ready, other.finish + (other.device == device ? 0.0 : seconds));
      };
      for (const Output& input : node->inputs()) wait_for(input.node, transfer(input));
      for (const Node* before : node->control_inputs()) wait_for(before, costs.TransferSeconds(0));
      return ready + costs.Seconds(*node);
    };
    int& chosen = group_device[static_cast<size_t>(mine.group)];
    if (chosen < 0) {
      double best = 0;
      for (int device : *mine.candidates) {
        const double finish = finish_on(device);
        if (chosen < 0 || finish < best) {
          if (chosen >= 0) mine.other_finish = best;
          chosen = device;
          best = finish;
        } else if (mine.other_finish == 0 || finish < mine.other_finish) {
          mine.other_finish = finish;
        }
      }
    }
    mine.device = chosen;
    mine.finish = finish_on(chosen);
    idle_from[static_cast<size_t>(chosen)] = mine.finish;
  }
}

}  // namespace rivulet
