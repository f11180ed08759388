// Elementwise functions on a device, each described as a small program of steps per element. Consecutive kernels with
// such a description are fused into one (engine/program/element_fusion.h), which keeps intermediate values in
// registers. The steps are the functions of the single kernels with the same roundings, so that the bits do not change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/gpu/element_chain.h"
#include "engine/program/gpu_kernel.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct ElementOperand {
  enum class Kind : uint8_t { kInput, kVariable, kStep };
  Kind kind = Kind::kInput;
  int index = 0;
  bool operator==(const ElementOperand&) const = default;
};

struct ElementStep {
  uint8_t code = 0;                      // from engine/kernels/cuda/element_code.h
  std::vector<ElementOperand> operands;  // up to three
  double parameter = 0;
};

// Destination of a step's result: an output of the kernel, or a variable.
struct ElementTarget {
  int step = 0;
  ElementOperand::Kind kind = ElementOperand::Kind::kInput;  // kVariable, or any other kind for an output
  int index = 0;
  ElementType type = ElementType::kOwn;
};

struct ElementProgram {
  DType dtype = DType::kFloat32;  // type of the arithmetic: float32 or float64
  int64_t count = 0;              // number of elements of every target and variable
  std::vector<ElementPlace> inputs;
  int variables = 0;  // number of variables, read and written completely, in `dtype`
  std::vector<ElementStep> steps;
  std::vector<ElementTarget> targets;
};

// Optional interface of a device kernel.
class GpuElements {
 public:
  virtual ~GpuElements() = default;
  virtual const ElementProgram& elements() const = 0;
};

// Returns `consumer` with the steps of `producer` inserted, which computes all of its input `link`. `input_of` maps
// each input of the producer, and then each of the consumer except `link`, to an input of the result; inputs with one
// index are the same. nullopt: the result would be longer than the device's kernel allows.
std::optional<ElementProgram> JoinElements(const ElementProgram& producer, const ElementProgram& consumer, size_t link,
                                           const std::vector<int>& input_of);

// A kernel that runs the program, and offers it for further fusion.
std::unique_ptr<const Kernel> NewElementChain(ElementProgram program);

// Returns true if NewElementChain accepts it: it is within the limits of the device's kernel.
bool FitsElementChain(const ElementProgram& program);

}  // namespace rivulet
