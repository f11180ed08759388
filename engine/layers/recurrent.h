// Recurrent layers, composed of one product for all steps and the op that iterates over the sequence (ops/recurrent.cc
// documents the ops). A bidirectional layer consists of two of them, the second with `reverse`, and a ConcatV2.
#pragma once

#include <string>

#include "engine/graph/scope.h"

namespace rivulet {

struct RecurrentOptions {
  bool time_major = false;  // x is [time, batch, features] instead of [batch, time, features]
  bool reverse = false;
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";
  std::string output_activation = "tanh";  // LSTM
  bool reset_after = true;                 // GRU
  float clip = 0;
};

// Tensors of a recurrent layer. All but x, kernel and recurrent_kernel may be empty. The axis gates · units has Keras'
// order: LSTM i, f, c, o; GRU z, r, h.
struct RecurrentInputs {
  Output x;
  Output kernel;            // [features, gates · units]
  Output recurrent_kernel;  // [units, gates · units]
  Output bias;              // [gates · units]
  Output recurrent_bias;    // [gates · units]; differs from `bias` only in a GRU with reset_after
  Output initial_h;         // [batch, units]
  Output initial_c;         // LSTM
  Output peephole;          // LSTM: [3 · units], i, f, o
  Output sequence_lengths;  // int32 or int64 [batch]
};

struct RecurrentOutputs {
  Output output;   // one row of `units` per step, with the layout of x
  Output final_h;  // [batch, units]
  Output final_c;  // LSTM
};

// Build the layers. Errors are kept in the scope.
RecurrentOutputs BuildLstm(const Scope& scope, const RecurrentInputs& inputs, const RecurrentOptions& options = {});
RecurrentOutputs BuildGru(const Scope& scope, const RecurrentInputs& inputs, const RecurrentOptions& options = {});
RecurrentOutputs BuildSimpleRnn(const Scope& scope, const RecurrentInputs& inputs,
                                const RecurrentOptions& options = {});

// Returns [a, b, in] · kernel [in, out] + bias [out] (unless empty) as [a, b, out], computed by one product.
Output SequenceProduct(const Scope& scope, Output x, Output kernel, Output bias);

}  // namespace rivulet
