// Two-dimensional convolutions (full, grouped, depthwise) as convolution.cc puts them together from oneDNN
// (dnnl_convolution.h), our own direct kernels (direct_conv.h, depthwise.h) and plain loops (conv_loops.h).
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
