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
  std::vector<std::string> targets;  // nodes that run for their effect; a partition adds its sends
};

// What `fetches` and `targets` need, cut out. A fed tensor becomes a Placeholder: of its producer's name, or of
// another where the producer is still needed. A variable, or the op that updates it, is fetched by its value: that is
// what a reference of TensorFlow's version 1 means. Random ops keep the position they had (attribute "_random_index").
// NOT_FOUND: a name the graph lacks (names the nearest).
StatusOr<RunGraph> PruneForRun(const Graph& graph, std::span<const std::string> feeds,
                               std::span<const std::string> fetches, std::span<const std::string> targets);

// Puts a run's nodes on devices. Thread-safe.
class Placer {
 public:
  virtual ~Placer() = default;
  // The session got this graph (at its creation, and from each Extend): what can be said about placing all of it is
  // said now. The graph stays as long as the session.
  virtual Status OnGraph(const Graph& graph) = 0;
  // Gives every node of `run` a full device name, and cuts edges between devices into _Send and _Recv nodes. The
  // result is cached by the session for runs of the same names, until generation() changes.
  virtual Status Partition(RunGraph& run) = 0;
  // Counts what makes earlier partitions stale.
  virtual uint64_t generation() const { return 0; }
};

}  // namespace rivulet
