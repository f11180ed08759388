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
  uint8_t code = 0;                      // of engine/kernels/cuda/element_code.h
  std::vector<ElementOperand> operands;  // up to three
  double parameter = 0;
};

// Where a step's result goes: an output of the kernel, or a variable.
struct ElementTarget {
  int step = 0;
  ElementOperand::Kind kind = ElementOperand::Kind::kInput;  // kVariable, or else an output
  int index = 0;
  ElementType type = ElementType::kOwn;
};

struct ElementProgram {
  DType dtype = DType::kFloat32;  // of the arithmetic: float32 or float64
  int64_t count = 0;              // elements of every target, and of the variables
  std::vector<ElementPlace> inputs;
  int variables = 0;  // read and written whole, in `dtype`
  std::vector<ElementStep> steps;
  std::vector<ElementTarget> targets;
};

// What a kernel of a device may be besides.
class GpuElements {
 public:
  virtual ~GpuElements() = default;
  virtual const ElementProgram& elements() const = 0;
};

// `consumer` with the steps of `producer` before its own, which made its input `link`, whole. `input_of` says for each
// input of the producer, and then for each of the consumer but `link`, which input of the result it is; all that are
// the same one are alike. None: it would be longer than the device's kernel takes.
std::optional<ElementProgram> JoinElements(const ElementProgram& producer, const ElementProgram& consumer, size_t link,
                                           const std::vector<int>& input_of);

// Runs it, and offers it for more.
std::unique_ptr<const Kernel> NewElementChain(ElementProgram program);

// Whether NewElementChain takes it: it has no more of anything than the device's kernel.
bool FitsElementChain(const ElementProgram& program);

}  // namespace rivulet
