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
  std::string layer;       // LayerOf its node
  std::string kernel;      // its C++ class
  std::string shapes;      // "float32[10,784] float32[784,200] -> float32[10,200]"
  double flops = 0;        // of one run, as far as the kernel tells
  double bytes = 0;        // inputs and outputs once each; variables that it updates twice
  int64_t live_bytes = 0;  // of the arena, while it runs: its inputs, outputs and scratch, and what others still need
};

// By instruction.
std::vector<InstructionCost> CostsOf(const Program& program);
// Of one lane. The kernels' names are those that a recording tells.
std::vector<InstructionCost> CostsOf(const GpuProgram& program);

// The layer of a node is the name scope that it was built in: "conv2" of "conv2/Relu" and of its gradient's nodes
// "gradients/conv2/Relu_grad/ReluGrad"; a node outside of all scopes is its own layer.
std::string LayerOf(std::string_view node);

// The node that `node` is part of the gradient of: "conv2/Relu" of "gradients/conv2/Relu_grad/ReluGrad"; else itself.
std::string ForwardNodeOf(std::string_view node);

}  // namespace rivulet
