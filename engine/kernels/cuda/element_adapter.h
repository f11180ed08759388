// Conversion of nodes to steps of elementwise chains (engine/program/gpu_elements.h), for the adapters of such
// functions.
#pragma once

#include <optional>
#include <span>

#include "engine/kernels/cuda/element_code.h"
#include "engine/program/gpu_elements.h"

namespace rivulet::gpu {

// How `input`, broadcast to `output`, is read. None: its axes that are not broadcast do not lie together, or a chain of
// `own` has no such type.
std::optional<ElementPlace> ElementPlaceOf(const TensorSpec& input, const Shape& output, DType own);

// One function of the node's inputs, which have `shapes`; none where a chain has no such types or layouts.
std::optional<ElementProgram> ElementsOf(const NodeView& node, std::span<const Shape> shapes, ElementCode code,
                                         double parameter = 0);
std::optional<ElementProgram> ElementsOf(const NodeView& node, ElementCode code, double parameter = 0);

// The kernel by itself, which is also offered as `program`; as it is where there is none.
Prepared WithElements(Prepared prepared, std::optional<ElementProgram> program);

inline ElementStep StepOf(ElementCode code, std::vector<ElementOperand> operands, double parameter = 0) {
  return {static_cast<uint8_t>(code), std::move(operands), parameter};
}

}  // namespace rivulet::gpu
