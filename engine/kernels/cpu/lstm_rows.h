// One step of one sequence of the usual LSTM (gates sigmoid, cell and output tanh, no peepholes, nothing clipped) as
// one pass over its gates, and the pass back. Elementwise, in the order of operations of recurrent_lstm.cc, so that the
// bits are its loops'.
#pragma once

#include <cstddef>

namespace rivulet {

// A row of gates is input, forget, candidate, output, `units` of each. gates = activations of projection + product;
// c and h become the next ones, and `cell` and `output` get copies. `gates` may be `projection`.
void LstmForwardRow(const float* projection, const float* product, float* gates, float* c, float* h, float* cell,
                    float* output, size_t units);

struct LstmRowGradient {
  const float *gates, *cell, *c_before;  // c_before: null where it is 0
  const float *h_grad, *output_grad;     // added up
  const float* cells_grad;               // null where there is none
  float* grad;                           // of the gates' inputs
  float* c_grad;                         // of this step's cell; becomes that of the cell before
};
void LstmBackwardRow(const LstmRowGradient& row, size_t units);

}  // namespace rivulet
