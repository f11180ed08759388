// Directions of two-dimensional convolutions (full, grouped, depthwise), and the order of their tensors.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/window.h"
#include "engine/ops/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// Inputs of a kernel: forward (image, filter [, bias]), backward input (filter, output gradient), backward filter
// (image, output gradient).
enum class ConvDirection { kForward, kBackwardInput, kBackwardFilter };

}  // namespace rivulet
