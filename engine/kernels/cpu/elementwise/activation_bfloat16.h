// Epilogue of a product in bfloat16: a bias for each channel, then an activation, in one pass over the rounded sums.
#pragma once

#include <cstdint>

#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// `product`, a kernel with two inputs, followed by the epilogue over its output, rows of channels, with the bits of
// BiasAdd and then the activation. Input 2 is the bias, in bfloat16.
Prepared WithBFloat16Epilogue(Prepared product, const FusedOps& fused, int64_t rows, int64_t channels);

}  // namespace rivulet
