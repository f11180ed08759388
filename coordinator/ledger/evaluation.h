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

// Where a version is measured with models of clients' own ("personal/…"): 1 of 1 of a client that had one, 0 of 1 of
// one that had trained none yet and was measured with what it would begin with, the shared model; of all together, how
// many had.
inline constexpr char kPersonalTrained[] = "personal/trained";

// What one client declares, by a spec of scalars (Plan::aggregation of an evaluation): "X/right" and "X/total" are the
// rate X, "X/count/0000" and so on the counts that X is made of (engine/models/metrics/metric.h), every other scalar
// but "examples" a mean over its examples. A rate of nothing is left out. INVALID_ARGUMENT: a scalar is missing or not
// finite, or counts are no counts.
StatusOr<Measures> MeasuresOf(const AggregationSpec& spec, const Scalars& declared);

// The same of all clients together, from their sums (ServerInput::scalars): means weighed by examples, and all that is
// right over all there is.
StatusOr<Measures> MeasuresOfSums(const AggregationSpec& spec, const Scalars& sums);

// How the values of each measure X are spread over clients, each client counting once, whatever it holds:
//
//   X/mean           their mean
//   X/p10, p50, p90  the smallest value that at least so many percent of the clients do not exceed (nearest rank)
//   X/worst_decile   the mean of the worst tenth of them, at least one: the highest of what is better lower
//                    (LowerIsBetter: losses and errors), else the lowest
//
// A client without X does not count for it. Of kPersonalTrained nothing is said. No order of `clients` can be seen.
Measures Distribution(std::span<const Measures* const> clients);

}  // namespace rivulet
