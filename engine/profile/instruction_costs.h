// Cost of each instruction of a program, independent of time: operations, bytes, memory, and its origin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

struct InstructionCost {
  std::string layer;       // LayerOf of its node
  std::string kernel;      // its C++ class
  std::string shapes;      // "float32[10,784] float32[784,200] -> float32[10,200]"
  double flops = 0;        // per run, if the kernel reports it
  double bytes = 0;        // inputs and outputs count once, updated variables twice
  int64_t live_bytes = 0;  // arena bytes in use while it runs: inputs, outputs, scratch, and values needed later
};

// Returns the costs by instruction.
std::vector<InstructionCost> CostsOf(const Program& program);
// Returns the costs of one lane. Kernels have the names in activity records.
std::vector<InstructionCost> CostsOf(const GpuProgram& program);

// Returns the name scope in which the node was built: "conv2" for "conv2/Relu" and for its gradient's nodes
// "gradients/conv2/Relu_grad/ReluGrad". A node outside of all scopes is its own layer.
std::string LayerOf(std::string_view node);

// Returns the node that `node` is a gradient of: "conv2/Relu" for "gradients/conv2/Relu_grad/ReluGrad"; else `node`.
std::string ForwardNodeOf(std::string_view node);

}  // namespace rivulet
