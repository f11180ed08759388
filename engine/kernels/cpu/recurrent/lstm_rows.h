// One step of one sequence of the usual LSTM (gates sigmoid, cell and output tanh, no peepholes, nothing clipped) as
// one pass over its gates, and its backward pass. Elementwise, in the order of operations of recurrent_lstm.cc, so that
// both give the same bits. The pass prefetches the rows of the sequence's next step: they are far away and too short
// for the hardware's prefetcher, and arrive during the product between the two steps.
#pragma once

#include <cstddef>

namespace rivulet {

// A row of gates is input, forget, candidate, output, `units` of each. gates = activations of projection + product; c
// and h become the next ones, and `cell` and `output` get copies. `gates` may be `projection`. The next step's rows of
// `projection`, `cell` and `output` are `next` rows further; 0 if this step is the last.
void LstmForwardRow(const float* projection, const float* product, float* gates, float* c, float* h, float* cell,
                    float* output, size_t units, std::ptrdiff_t next);

struct LstmRowGradient {
  const float *gates, *cell, *c_before;  // c_before: null means 0
  const float *h_grad, *output_grad;     // added up
  const float* cells_grad;               // null: none
  float* grad;                           // of the gates' inputs; may be `gates`
  float* c_grad;                         // of this step's cell; becomes that of the cell before
  std::ptrdiff_t next = 0;               // rows from gates, output_grad and grad to the next step's, 0 for none
  const float* next_c_before = nullptr;  // the next step's c_before, null if unknown
};
void LstmBackwardRow(const LstmRowGradient& row, size_t units);

}  // namespace rivulet
