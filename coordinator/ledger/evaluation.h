// Results of clients' evaluations of a version: the measures of each, their aggregate, and their spread. Pure functions
// of values.
#pragma once

#include <map>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/evaluation/evaluator.h"
#include "federated/tasks/task.h"

namespace rivulet {

using Measures = std::map<std::string, Measure>;  // "evaluate/accuracy"

// For versions measured with clients' own models ("personal/…"): 1 of 1 for a client that had one, 0 of 1 for
// one that had trained none yet and was measured with the shared model. Over all clients: the number that had
// one.
inline constexpr char kPersonalTrained[] = "personal/trained";

// One client's declared measures, by a spec of scalars (Plan::aggregation of an evaluation). "X/right" and "X/total"
// are the rate X. "X/count/0000" and so on are the counts from which X follows (engine/models/metrics/metric.h). Every
// other scalar except "examples" is a mean over examples. A rate with total 0 is left out. INVALID_ARGUMENT: a scalar
// is missing or not finite, or counts are invalid.
StatusOr<Measures> MeasuresOf(const AggregationSpec& spec, const Scalars& declared);

// The same over all clients, from their sums (ServerInput::scalars): means weighted by examples, and rates as all that
// is right over the total.
StatusOr<Measures> MeasuresOfSums(const AggregationSpec& spec, const Scalars& sums);

// How the values
// of each measure
// X are
// distributed
// over clients,
// with equal
// weight for each
// A client without X is not counted for it. kPersonalTrained is left out. The order of `clients` has no effect.
Measures Distribution(std::span<const Measures* const> clients);

}  // namespace rivulet
