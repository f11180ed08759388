// Where a tensor is not zero.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

int64_t CountNonZero(const Tensor& tensor) {
  const size_t element = SizeOf(tensor.dtype());
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const std::byte* at = tensor.data() + static_cast<size_t>(i) * element;
    bool nonzero = std::any_of(at, at + element, [](std::byte b) { return b != std::byte{0}; });
    if (nonzero && IsFloating(tensor.dtype())) {  // -0 is zero
      nonzero = (at[element - 1] & std::byte{0x7F}) != std::byte{0} ||
                std::any_of(at, at + element - 1, [](std::byte b) { return b != std::byte{0}; });
    }
    count += nonzero ? 1 : 0;
  }
  return count;
}

Status WhereShape(InferenceContext& c) {
  const Tensor* value = c.input_value(0);
  c.set_output(0, Shape({value == nullptr ? kUnknownDim : CountNonZero(*value),
                         c.input(0).known_rank() ? c.input(0).rank() : kUnknownDim}));
  return absl::OkStatus();
}

RIVULET_OP("Where")
    .Input("input: T")
    .Output("index: int64")
    .Attr("T: " RIVULET_ANY_TYPE " = DT_BOOL")
    .Shape(WhereShape)
    .NotDifferentiable("its output is an index")
    .Doc(
        "The index vectors of the elements that are not zero, in order. How many there are is the shape of the output, "
        "so a program must know input when it is compiled; a session need not.");

}  // namespace
}  // namespace rivulet
