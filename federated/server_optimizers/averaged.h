// An exponential average of the versions' weights (Polyak and Juditsky 1992; for evaluation as in Izmailov et al. 2018,
// arXiv:1803.05407), for any server optimiser:
//
//   a ← average · a + (1 − average) · w,    from a = w of version 0
//
// It is measured in the place of the version and trains nothing: the optimiser alone makes the versions.
#pragma once

#include <memory>
#include <string_view>

#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {

// What keeps it: as long as the trainable elements, in wire order.
inline constexpr char kServerAverage[] = "server/average";

// `optimizer`, which keeps the average beside what it keeps itself. 0 < average < 1.
std::unique_ptr<const ServerOptimizer> Averaged(std::unique_ptr<const ServerOptimizer> optimizer, double average);

// A version's model with the weights of one of its flats, and its own running statistics.
std::shared_ptr<const Model> ModelOfFlat(const ServerState& state, std::string_view flat);

// What is to be measured of a version: its average where it has one, with the version's own running statistics; else
// its model.
std::shared_ptr<const Model> MeasuredModel(const ServerState& state);

}  // namespace rivulet
