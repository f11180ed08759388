// Conversion of nodes to steps of elementwise chains (engine/program/gpu_elements.h), for the adapters of such
// functions.
#pragma once

#include <optional>
#include <span>

#include "engine/kernels/cuda/element_code.h"
#include "engine/program/gpu_elements.h"

namespace rivulet::gpu {

// The way `input`, broadcast to `output`, is read. nullopt: its axes that are not broadcast are not adjacent, or chains
// of type `own` do not support its type.
std::optional<ElementPlace> ElementPlaceOf(const TensorSpec& input, const Shape& output, DType own);

// A program with one function of the node's inputs, of `shapes`; nullopt if chains do not support its types or layouts.
std::optional<ElementProgram> ElementsOf(const NodeView& node, std::span<const Shape> shapes, ElementCode code,
                                         double parameter = 0);
std::optional<ElementProgram> ElementsOf(const NodeView& node, ElementCode code, double parameter = 0);

// The kernel, also offered as `program` for fusion; unchanged if there is no program.
Prepared WithElements(Prepared prepared, std::optional<ElementProgram> program);

inline ElementStep StepOf(ElementCode code, std::vector<ElementOperand> operands, double parameter = 0) {
  return {static_cast<uint8_t>(code), std::move(operands), parameter};
}

}  // namespace rivulet::gpu
