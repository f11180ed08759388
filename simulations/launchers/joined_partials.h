// Merging of the partial sums of several ranks. Sums are integers: the rank that aggregated an update, and the order of
// addition, change no bit.
#pragma once

#include "federated/aggregation/aggregation.h"
#include "simulations/launchers/local_task_server.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// Called by all ranks at once, each with its own part, which may be empty, of `spec` and `base_version`. At rank 0: all
// of it; elsewhere nothing. Sums are added by all ranks together (Ranks::Sum); of a rule that needs all updates these
// are brought to rank 0. Errors are those of such a rule's files.
StatusOr<LocalTaskServer::Folded> JoinPartials(Ranks& ranks, const AggregationSpec& spec, int64_t base_version,
                                               LocalTaskServer::Folded own);

}  // namespace rivulet
