// Diagonals of tensors whose axes are repeated.
#include "engine/kernels/cpu/movement/copies.h"

namespace rivulet {
namespace {

StatusOr<Prepared> PrepareTwiceDiagonal(const NodeView& node, const KernelPolicy&) {
  const bool part = node.node.type() == "DiagPart";
  const int64_t count = (part ? node.outputs[0] : node.inputs[0]).shape.elements();
  const std::vector<int64_t> dims = {count}, along = {count + 1}, dense = {1};
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, dims, part ? dense : along, part ? along : dense));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/!part);
}
RIVULET_KERNEL_OF_EVERY_SIZE("Diag", PrepareTwiceDiagonal);
RIVULET_KERNEL_OF_EVERY_SIZE("DiagPart", PrepareTwiceDiagonal);

}  // namespace
}  // namespace rivulet
