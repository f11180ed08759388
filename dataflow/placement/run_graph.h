// The part of a session's graph that one run needs, and the interface that places it on devices.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct RunGraph {
  Graph graph;
  std::vector<std::string> feeds;    // tensors of `graph`, in the order of the run's feeds
  std::vector<std::string> fetches;  // likewise
  std::vector<std::string> targets;  // nodes that run for their side effects; a partition adds its sends
};

// Extracts the nodes that `fetches` and `targets` need. A fed tensor becomes a Placeholder with its producer's name, or
// with another if the producer is still needed. Random ops keep their original position (attribute "_random_index").
// NOT_FOUND: a name that the graph lacks (names the nearest).
StatusOr<RunGraph> PruneForRun(const Graph& graph, std::span<const std::string> feeds,
                               std::span<const std::string> fetches, std::span<const std::string> targets);

// Assigns a run's nodes to devices. Thread-safe.
class Placer {
 public:
  virtual ~Placer() = default;
  // Called when the session receives a graph (at its creation, and in each Extend), to report errors about placing all
  // of it. The graph lives as long as the session.
  virtual Status OnGraph(const Graph& graph) = 0;
  // Gives every node of `run` a full device name, and cuts edges between devices into _Send and _Recv nodes. The
  // result is cached by the session for runs of the same names, until generation() changes.
  virtual Status Partition(RunGraph& run) = 0;
  // Changes when earlier partitions become outdated.
  virtual uint64_t generation() const { return 0; }
};

}  // namespace rivulet
