// Merging of the partial sums of several ranks. Sums are integers: the rank that aggregated an update, and the order of
// addition, change no bit.
#pragma once

#include "federated/aggregation/aggregation.h"
#include "simulations/launchers/local_task_server.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// Called by all ranks together, each with its own part, which may be empty, of `spec` and `base_version`. Gives the
// whole at rank 0, and nothing elsewhere. All ranks add the sums together (Ranks::Sum); for a rule that needs all
// updates, these are sent to rank 0. Errors are those of such a rule's files.
StatusOr<LocalTaskServer::Folded> JoinPartials(Ranks& ranks, const AggregationSpec& spec, int64_t base_version,
                                               LocalTaskServer::Folded own);

}  // namespace rivulet
