// Devices for training with parameter servers: variables are distributed over the tasks of a job, and all other nodes
// go to one worker. TensorFlow's replica_device_setter, for a complete graph.
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
  std::string worker = "/job:worker";  // for nodes without a variable
  // A variable goes to the task with the fewest bytes so far, the first if several (GreedyLoadBalancingStrategy with
  // byte_size_load_fn); otherwise to the tasks in turn.
  bool by_size = false;
};

// Returns a copy of the graph with these devices. Parts of a device that a node states itself take precedence.
// Variables that must share a device, such as a weight and its momentum, count as one with their total size. Each
// variable without a task gets one, in order of creation; its users go there too. INVALID_ARGUMENT: no tasks, a worker
// that is not a device, a variable of unknown size with `by_size`, clashing colocations.
StatusOr<Graph> OnParameterServers(const Graph& graph, const ParameterServers& servers);

}  // namespace rivulet
