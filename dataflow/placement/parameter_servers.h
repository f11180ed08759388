// Devices for training with parameter servers: variables are spread over the tasks of a job, and everything else goes
// to one worker. TensorFlow's replica_device_setter, for a graph that is built.
//
//   RIVULET_ASSIGN_OR_RETURN(graph, OnParameterServers(graph, {.tasks = 2, .worker = "/job:worker/task:0"}));
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct ParameterServers {
  int tasks = 1;
  std::string job = "ps";
  std::string worker = "/job:worker";  // of nodes that hold no variable
  // A variable goes to the task with the fewest bytes so far, and of several to the first
  // (GreedyLoadBalancingStrategy with byte_size_load_fn); else to the tasks in turn.
  bool by_size = false;
};

// A copy of the graph whose nodes have these devices. Parts that a node states itself win. Variables that must share a
// device, such as a weight and its momentum, count as one of their size together. Every variable that states no task is
// given one, in order of creation; nodes that use it go there too. INVALID_ARGUMENT: no tasks, a worker that is no
// device, with `by_size` a variable of unknown size, colocations that clash.
StatusOr<Graph> OnParameterServers(const Graph& graph, const ParameterServers& servers);

}  // namespace rivulet
