// One step of one sequence of the usual GRU (gates sigmoid, candidate tanh, nothing clipped, the reset after the
// product) as one pass over its gates, and its backward pass. Elementwise, in the order of operations of
// recurrent_gru.cc, so that both give the same bits.
#pragma once

#include <cstddef>

namespace rivulet {

// A row of `projection`, `product` and `bias` (null: none) is z, r, candidate, `units` of each; a row of `gates` also
// has the factor of r after them. h becomes the next state, `output` gets a copy.
void GruForwardRow(const float* projection, const float* product, const float* bias, float* gates, float* h,
                   float* output, size_t units);

struct GruRowGradient {
  const float *gates, *h;    // h: the state before the step
  const float* output_grad;  // added to h_grad
  float *grad, *recurrent;   // of the projection and of the product
  float* h_grad;             // of this step's state; becomes its part that passes through z
};
void GruBackwardRow(const GruRowGradient& row, size_t units);

}  // namespace rivulet
