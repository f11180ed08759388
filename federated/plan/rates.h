// Metrics of a model that are rates or counts, and their denominators.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace rivulet {

// A scalar that is the mean of truths (Mean of Cast of a bool, as accuracy is) says how many of them are true. The ones
// and zeros that it is the mean of, float32, one for each of what it is over; their node's input are the truths.
// Nothing: the tensor is no rate, or there is none of that name.
std::optional<Output> OnesOfRate(const Graph& graph, const std::string& tensor);

// Of a metric that counts (engine/models/metrics/metric.h) how many counts its tensor has. Nothing: it is no such
// metric.
std::optional<int64_t> CountsOf(const Graph& graph, std::string_view metric, const std::string& tensor);

}  // namespace rivulet
