// Convolutions of 3×3 and 5×5 windows for float32 by fewer multiplications: Winograd's minimal filtering (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016). A tile of 6×6 pixels of the image gives 4×4
// outputs of a 3×3 window with 36 products a pair of channels instead of 144. For a 5×5 window it gives 2×2 outputs
// with 36 products instead of 100. The products are matrix products over channels, one for each of the 36 points.
//
// It is less exact. A result differs from the float64 convolution by up to 5 times as much as direct float32 sums
// (tests/engine/kernels/convolution/winograd_test.cc), and integers are not exact. A filter's gradient that may be only
// rounding error is set to 0, as if no product contributed to the weight. A NaN or an infinity in an image makes all
// results of its tile NaN. One in a filter does so for its whole output channel (input channel for the input's
// gradient). So all algorithms give NaN for such numbers, but not at the same places.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"
#include "engine/kernels/cpu/convolution/winograd_shape.h"

namespace rivulet {

// The shape of a convolution that Winograd's filtering supports; nullopt for other windows, strides, dilations and
// groups.
std::optional<WinogradShape> WinogradShapeOf(ConvDirection direction, const Window& window);

// The tensors are NHWC regardless of `window.nchw`. `fused` is for the forward direction and is applied with the
// arithmetic of epilogue.h, in registers if there is a bias. nullopt as WinogradShapeOf. With `pooled`, for forward
// convolutions with a bias, the output is the maximum of each 2×2 pixels, with MaxPool's bits, and the full result is
// never in memory. PaysWinograd (choose.h) says when it is faster.
std::optional<Prepared> WinogradConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {},
                                            bool pooled = false);

}  // namespace rivulet
