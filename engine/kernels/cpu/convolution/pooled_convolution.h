// Max pooling of 2×2 pixels fused after a convolution, for kernels that do not pool in their registers. Evaluation
// reads a convolution's output only once, and it is four times as large as the pooled result.
#pragma once

#include <memory>

#include "engine/kernels/cpu/convolution/window.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A convolution that computes its images one by one, each with the bits that it has in a batch.
class ImageByImage {
 public:
  virtual ~ImageByImage() = default;
  // This kernel for the first image alone. Uses this kernel's scratch, no state. Null: it computes all images at once.
  virtual std::unique_ptr<const Kernel> OfOneImage() const = 0;
};

// `convolution`, a forward one of NHWC images (inputs image, filter [, bias]), followed by MaxPool 2×2 of its output
// with stride 2, VALID, with that op's bits. The intermediate result is in scratch: one image if the convolution is
// ImageByImage, so that the pool finds it in a near cache, else all of them.
Prepared WithMaxPool(Prepared convolution, const Window& window);

}  // namespace rivulet
