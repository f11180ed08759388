// Metrics of a model that are rates or counts, and their denominators.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace rivulet {

// For a scalar that is the mean of truth values (Mean of Cast of a bool, such as accuracy): the averaged ones and
// zeros, float32. The input of their node is the truth values. nullopt: the tensor is not a rate, or does not
// exist.
std::optional<Output> OnesOfRate(const Graph& graph, const std::string& tensor);

// Number of counts in the tensor of a counting metric (engine/models/metrics/metric.h). nullopt: not such a
// metric.
std::optional<int64_t> CountsOf(const Graph& graph, std::string_view metric, const std::string& tensor);

}  // namespace rivulet
