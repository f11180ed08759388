// The server's optimiser: what the mean delta does to the model.
#pragma once

#include <memory>
#include <span>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// base + learning_rate × mean_delta, as FedAvg (McMahan et al. 2017; learning_rate = 1) and FedOpt's SGD (Reddi et al.
// 2021) have it. Each element is computed in double and rounded once to float32. `mean_delta` is in wire order: the
// trainable and shared segments; the others are the base's. INVALID_ARGUMENT: `mean_delta` is not as long as the
// model's update. FAILED_PRECONDITION: a result is not finite; names its tensor.
StatusOr<std::shared_ptr<const Model>> ApplyMeanDelta(const Model& base, std::span<const float> mean_delta,
                                                      double learning_rate);

}  // namespace rivulet
