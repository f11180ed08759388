// Convolutions of 3×3 and 5×5 windows for float32 by fewer multiplications: Winograd's minimal filtering (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016). A tile of 6×6 pixels of the image gives 4×4
// outputs of a 3×3 window with 36 products a pair of channels instead of 144. For a 5×5 window it gives 2×2 outputs
// with 36 products instead of 100. The products are matrix products over channels, one for each of the 36 points.
//
// The cost is exactness. A result differs from the float64 convolution by up to 5 times as much as direct float32 sums
// do (tests/engine/kernels/convolution/winograd_test.cc), and integers are not exact. A filter's gradient that may be
// rounding error alone is set to 0, as where no product reached a weight. A NaN or an infinity in an image makes NaNs
// of all results of its tile. One in a filter does so for its whole output channel (input channel for the input's
// gradient). So every kernel gives a NaN for such numbers, but not in the same places.
#pragma once

#include <optional>

#include "engine/kernels/cpu/convolution/convolution.h"
#include "engine/kernels/cpu/convolution/winograd_shape.h"

namespace rivulet {

// The shape of a convolution that Winograd's filtering can do; nullopt for other windows, strides, dilations and
// groups.
std::optional<WinogradShape> WinogradShapeOf(ConvDirection direction, const Window& window);

// The tensors are NHWC whatever `window.nchw` says. `fused` is for the forward direction and is applied with
// epilogue.h's arithmetic, before outputs go to memory where it has a bias. nullopt as WinogradShapeOf. With `pooled`,
// of forward convolutions with a bias, the output are the maxima of each 2×2 of what it would be else, with MaxPool's
// bits, and the rest is never in memory. Where it pays: PaysWinograd (choose.h).
std::optional<Prepared> WinogradConvolution(ConvDirection direction, const Window& window, const FusedOps& fused = {},
                                            bool pooled = false);

}  // namespace rivulet
