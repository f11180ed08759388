// Max pooling of 2×2 pixels fused after a convolution, for kernels that do not pool in their registers. Evaluation
// reads a convolution's output only once, and it is four times as large as the pooled result.
#pragma once

#include <memory>

#include "engine/kernels/cpu/convolution/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A convolution that makes one image after the other, each with the bits that it has among others.
class ImageByImage {
 public:
  virtual ~ImageByImage() = default;
  // This kernel for the first image alone. Takes the scratch of this kernel and no state. Null: it makes all at once.
  virtual std::unique_ptr<const Kernel> OfOneImage() const = 0;
};

// `convolution`, a forward one of NHWC images (inputs image, filter [, bias]), and then MaxPool 2×2 of its output at
// stride 2, VALID, with that op's bits. What lies between is in the scratch: one image where the convolution is
// ImageByImage, so that the pool finds it in a near cache, else all of them.
Prepared WithMaxPool(Prepared convolution, const Window& window);

}  // namespace rivulet
