// An exponential average of the versions' weights (Polyak and Juditsky 1992; for evaluation as in Izmailov et al. 2018,
// arXiv:1803.05407), for any server optimiser:
//
//   a ← average · a + (1 − average) · w,    from a = w of version 0
//
// It is measured instead of the version and does not affect training: only the optimiser makes versions.
#pragma once

#include <memory>
#include <string_view>

#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {

// The flat vector with the average: one value per trainable element, in wire order.
inline constexpr char kServerAverage[] = "server/average";

// Wraps `optimizer` and adds the average to its flats. 0 < average < 1.
std::unique_ptr<const ServerOptimizer> Averaged(std::unique_ptr<const ServerOptimizer> optimizer, double average);

// A version's model with the weights of one of its flats, and the version's own running statistics.
std::shared_ptr<const Model> ModelOfFlat(const ServerState& state, std::string_view flat);

// The model to measure for a version: its average if it has one, with the version's own running statistics; else its
// model.
std::shared_ptr<const Model> MeasuredModel(const ServerState& state);

}  // namespace rivulet
