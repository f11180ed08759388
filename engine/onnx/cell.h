// One direction of a recurrent layer in ONNX's description. Gates are along axis 0 of the weights, in the order of
// Rivulet's ops (LSTM i, f, c, o; GRU z, r, h); activations are given by name.
#pragma once

#include <string>
#include <vector>

#include "engine/onnx/builder.h"

namespace rivulet::onnx {

struct Activation {
  std::string name;  // in lower case: "tanh", "hardsigmoid"
  double alpha = 0, beta = 0;
};
// UNIMPLEMENTED: a name that is not in ONNX's list.
StatusOr<Activation> ActivationOf(std::string name);
bool TakesAlpha(const Activation& activation);
bool TakesBeta(const Activation& activation);

struct Cell {
  enum class Kind { kRnn, kGru, kLstm } kind = Kind::kRnn;
  std::vector<Activation> activations;  // RNN f; GRU f, g; LSTM f, g, h
  double clip = 0;                      // 0: none
  bool reset_after = false;             // GRU's linear_before_reset
  bool input_forget = false;            // LSTM: the forget gate is 1 - the input gate
  bool time_major = true;
  bool reverse = false;
};

struct CellInputs {
  Output x;                 // [time, batch, in], or [batch, time, in]
  Output kernel;            // [gates · units, in]
  Output recurrent_kernel;  // [gates · units, units]
  Output bias;              // [gates · units], or empty
  Output recurrent_bias;    // likewise
  Output lengths;           // [batch], or empty
  Output initial_h;         // [batch, units], or empty
  Output initial_c;         // likewise
  Output peephole;          // [3 · units]: i, f, o; or empty
};

struct CellOutputs {
  Output y;                 // [time, batch, units], or [batch, time, units]
  Output final_h, final_c;  // [batch, units]
};

// Builds the cell with the engine's op for whole sequences if it has the activations; otherwise step by step.
CellOutputs RunCell(const Builder& b, const Cell& cell, const CellInputs& inputs);

}  // namespace rivulet::onnx
