// Convolutions of few channels over many images: a vector holds one element of as many images as it has lanes, where
// vectors of channels, or of a short row's pixels, are mostly empty or end half way. Images are interleaved a
// vector of them at a time, and results are deinterleaved while they are in the second cache.
//
// Sums are direct and in order, over the window's rows, its columns and channels; a filter's gradient is summed for
// each lane over all images and pixels, lanes at the end. Padding is left out where a whole block of pixels meets it,
// and multiplied as zeros beside pixels that do not: a weight that is infinite may give NaN there.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"

namespace rivulet {

constexpr int64_t kMostInterleaved = 16;  // images, of the widest vectors

// The tensors are NHWC whatever `window.nchw` says. `fused` is for the forward direction and is applied with
// epilogue.h's arithmetic. nullopt for strides, dilations and groups. Where it pays: PaysToInterleave (choose.h).
std::optional<Prepared> BatchInterleavedConvolution(ConvDirection direction, const Window& window,
                                                    const FusedOps& fused = {});

}  // namespace rivulet
