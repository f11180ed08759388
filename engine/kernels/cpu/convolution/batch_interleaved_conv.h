// Convolutions of few channels over many images. A vector has one element of as many images as it has lanes; vectors of
// channels, or of a short row's pixels, would be mostly empty. One vector of images at a time is interleaved, and
// results are deinterleaved while they are in the second cache.
//
// Sums are direct and in order, over the window's rows, columns and channels. A filter's gradient is summed in each
// lane over all images and pixels, and over lanes at the end. Padding is skipped for blocks of pixels that are
// completely in it, and multiplied as zeros otherwise: an infinite weight may then give NaN.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

constexpr int64_t kMostInterleaved = 16;  // images per vector, at most

// The tensors are NHWC regardless of `window.nchw`. `fused` is for the forward direction and is applied with the
// arithmetic of epilogue.h. nullopt for strides, dilations and groups. See PaysToInterleave (choose.h).
std::optional<Prepared> BatchInterleavedConvolution(ConvDirection direction, const Window& window,
                                                    const FusedOps& fused = {});

}  // namespace rivulet
