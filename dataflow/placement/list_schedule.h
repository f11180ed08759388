// List scheduling of a graph over devices by earliest finish time. Private to the placer.
#pragma once

#include <span>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct ListScheduleNode {
  int group = 0;                                 // nodes of one group share a device
  const std::vector<int>* candidates = nullptr;  // of the group, in order of preference
  bool left_out = false;                         // costs nothing and is not placed
  int device = -1;                               // the node's device, or -1; set by ListSchedule
  double finish = 0;                             // seconds after the start; set by ListSchedule
  double other_finish = 0;                       // on the second best device; 0 if there is no choice
};

// `order`: the graph's nodes, inputs first; `nodes` by id. Nodes are processed by decreasing upward rank (the longest
// path to the end, including transfers; ties by `order`), so inputs come first. Each is assigned to the candidate where
// it ends first (ties: the first candidate).
void ListSchedule(std::span<Node* const> order, std::vector<ListScheduleNode>& nodes, const CostModel& costs,
                  size_t devices);

}  // namespace rivulet
