// Neighbour graph of a cohort: k/2 random cycles through all members, with double edges switched, so that every member
// has k different neighbours. The graph is a function of the cohort's context, byte by byte as
// docs/internals/secure-aggregation.md states it. Members are numbers from 0, in the order of their names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/sha256.h"
#include "federated/secure/graph_shape.h"

namespace rivulet::secure {

// Immutable, thread-safe.
class NeighbourGraph {
 public:
  // `context`: the cohort's. FAILED_PRECONDITION: the second eigenvalue is above EigenvalueBound, which a graph from
  // honest keys never is; or double edges cannot be switched.
  static StatusOr<std::shared_ptr<const NeighbourGraph>> Create(const Digest& context, int64_t members,
                                                                const GraphShape& shape);
  // The same, or the one that this process made last where that was of the same context: thousands of simulated clients
  // share one. Thread-safe.
  static StatusOr<std::shared_ptr<const NeighbourGraph>> Shared(const Digest& context, int64_t members,
                                                                const GraphShape& shape);

  int64_t members() const { return members_; }
  const GraphShape& shape() const { return shape_; }
  std::vector<uint32_t> NeighboursOf(uint32_t member) const;  // ascending
  // Those that have shares of the member's secrets: its neighbours, and in a complete graph itself. Ascending.
  std::vector<uint32_t> HoldersOf(uint32_t member) const;
  // Of the adjacency matrix without its first eigenvalue, in absolute value, by power iteration: at most a hundredth
  // below the true one.
  double SecondEigenvalue() const;

 private:
  NeighbourGraph(int64_t members, const GraphShape& shape) : members_(members), shape_(shape) {}
  Status Draw(const Digest& context);

  const int64_t members_;
  const GraphShape shape_;
  std::vector<uint32_t> neighbours_;  // k of each member; none of a complete graph
};

}  // namespace rivulet::secure
