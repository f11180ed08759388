// The same bytes as another type.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// A smaller type adds an axis with the parts of each element, a larger one takes such an axis away.
Status BitcastShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  const size_t from = SizeOf(c.input_dtype(0)), to = SizeOf(c.attr<DType>("type"));
  if (from == 0 || to == 0) return Unimplemented("types whose elements are no bytes");
  if (!input.known_rank() || from == to) {
    c.set_output(0, input);
    return absl::OkStatus();
  }
  std::vector<int64_t> dims(input.dims().begin(), input.dims().end());
  if (from > to) {
    dims.push_back(static_cast<int64_t>(from / to));
  } else {
    const auto parts = static_cast<int64_t>(to / from);
    if (dims.empty() || (dims.back() != parts && dims.back() != kUnknownDim))
      return InvalidArgument("the last axis of {} must have {} elements, which make one", input.ToString(), parts);
    dims.pop_back();
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

#define RIVULET_BITS "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64}"

RIVULET_OP("Bitcast")
    .Input("input: T")
    .Output("output: type")
    .Attr("T: " RIVULET_BITS)
    .Attr("type: " RIVULET_BITS)
    .Shape(BitcastShape)
    .NotDifferentiable("its output is bits")
    .Doc("The bytes of its input as another type. A type of another size adds or takes away a last axis.");

}  // namespace
}  // namespace rivulet
