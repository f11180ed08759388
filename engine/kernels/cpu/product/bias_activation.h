// Bias and activation that a product applies to its result.
// The bits are those of separate BiasAdd, Relu and Relu6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

enum class FusedActivation { kNone, kRelu, kRelu6 };

// Parses the attribute fused_ops, with `biases` inputs after the product's two. INVALID_ARGUMENT: a sequence without a
// kernel.
StatusOr<FusedActivation> ParseFusedOps(const std::vector<std::string>& fused_ops, size_t biases);

// Updates c[rows, channels] in place; `bias` has `channels` elements.
template <typename T>
void AddBiasAndActivate(T* c, const T* bias, FusedActivation activation, int64_t rows, int64_t channels);

}  // namespace rivulet
