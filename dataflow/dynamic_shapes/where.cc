// The index vectors of non-zero elements; their number depends on the values.
#include <algorithm>

#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

// Compares bytes, because zero is all zero bits in every type, apart from the sign of floats.
bool IsZero(const std::byte* element, size_t bytes, bool floating) {
  if (std::any_of(element, element + bytes - 1, [](std::byte b) { return b != std::byte{0}; })) return false;
  return (element[bytes - 1] & (floating ? std::byte{0x7F} : std::byte{0xFF})) == std::byte{0};
}

void Where(AsyncContext& context, AsyncDone done) {
  const Tensor& input = context.inputs[0];
  const size_t bytes = SizeOf(input.dtype());
  std::vector<int64_t> found;
  for (int64_t i = 0; i < input.elements(); ++i)
    if (!IsZero(input.data() + static_cast<size_t>(i) * bytes, bytes, IsFloating(input.dtype()))) found.push_back(i);
  const int rank = input.shape().rank();
  StatusOr<Tensor> output = Tensor::Create(DType::kInt64, Shape({static_cast<int64_t>(found.size()), rank}));
  if (!output.ok()) return done(output.status());
  int64_t* out = output->flat<int64_t>().data();
  for (int64_t place : found) {
    for (int axis = rank; axis-- > 0; place /= input.shape().dim(axis)) out[axis] = place % input.shape().dim(axis);
    out += rank;
  }
  done(std::vector{*std::move(output)});
}
RIVULET_DYNAMIC_OP("Where", Where);

}  // namespace
}  // namespace rivulet
