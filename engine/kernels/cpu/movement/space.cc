// SpaceToDepth, DepthToSpace; SpaceToBatchND, BatchToSpaceND.
#include <algorithm>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kMaxBlocks = 1 << 16;

// The larger image viewed as [n, h, block, w, block, c] (or with c after n), permuted: one copy.
StatusOr<Prepared> PrepareDepth(const NodeView& node, bool to_depth) {
  const int64_t block = node.attr<int64_t>("block_size");
  const bool channels_first = node.attr<std::string>("data_format") == "NCHW";
  const Shape& wide = to_depth ? node.inputs[0].shape : node.outputs[0].shape;
  const Shape& deep = to_depth ? node.outputs[0].shape : node.inputs[0].shape;
  const int height = channels_first ? 2 : 1, width = height + 1, channels = channels_first ? 1 : 3;
  const Ints w = RowMajorStrides(wide), d = RowMajorStrides(deep);
  const auto at = [](const Ints& strides, int axis) { return strides[static_cast<size_t>(axis)]; };
  const int64_t c = wide.dim(channels);
  // Axes: n, block row, block column, h, w, c. In the deep tensor the channel is (row · block + column) · c + channel.
  const Ints dims = {wide.dim(0), deep.dim(height), deep.dim(width), block, block, c};
  const Ints in_wide = {at(w, 0),      block * at(w, height), block * at(w, width),
                        at(w, height), at(w, width),          at(w, channels)};
  const Ints in_deep = {at(d, 0),       at(d, height), at(d, width), block * c * at(d, channels), c * at(d, channels),
                        at(d, channels)};
  // Written in order.
  Ints order = {0, 1, 2, 3, 4, 5};
  const Ints& written = to_depth ? in_deep : in_wide;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return written[static_cast<size_t>(a)] > written[static_cast<size_t>(b)];
  });
  const auto sorted = [&](const Ints& values) {
    Ints result;
    for (int64_t i : order) result.push_back(values[static_cast<size_t>(i)]);
    return result;
  };
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, sorted(dims), sorted(to_depth ? in_deep : in_wide), sorted(to_depth ? in_wide : in_deep)));
  return PrepareCopies(node, std::move(copies));
}

// For each position in a block: copies between the (padded) elements of `space` and their batch in `batched`.
StatusOr<Prepared> PrepareBatch(const NodeView& node, bool to_batch) {
  RIVULET_ASSIGN_OR_RETURN(const Ints block, ConstantInput(node, 1, "block_shape"));
  RIVULET_ASSIGN_OR_RETURN(const Ints edges, ConstantInput(node, 2, to_batch ? "the paddings" : "the crops"));
  const Shape& space = to_batch ? node.inputs[0].shape : node.outputs[0].shape;
  const Shape& batched = to_batch ? node.outputs[0].shape : node.inputs[0].shape;
  const Ints s = RowMajorStrides(space), b = RowMajorStrides(batched);
  int64_t blocks = 1;
  for (int64_t size : block) blocks *= size;
  if (blocks > kMaxBlocks)
    return Unimplemented("{} '{}' with blocks of {} elements; at most {} are possible", node.node.type(),
                         node.node.name(), blocks, kMaxBlocks);
  std::vector<StridedCopy> copies;
  for (int64_t position = 0; position < blocks; ++position) {
    Ints dims(space.dims().begin(), space.dims().end()), in_space = s;
    int64_t space_offset = 0, batched_offset = position * space.dim(0) * b[0], rest = position;
    for (size_t i = block.size(); i-- > 0;) {
      const size_t axis = i + 1;
      const int64_t within = rest % block[i];
      rest /= block[i];
      // Element o of the batch is element o · block + within - before of space, if that exists.
      const int64_t shift = within - edges[2 * i], size = space.dim(static_cast<int>(axis));
      const int64_t first = shift < 0 ? (-shift + block[i] - 1) / block[i] : 0;
      const int64_t last = size - shift <= 0 ? 0 : (size - shift - 1) / block[i] + 1;  // exclusive upper bound
      const int64_t end = std::min(last, batched.dim(static_cast<int>(axis)));
      dims[axis] = std::max<int64_t>(0, end - first);
      in_space[axis] = s[axis] * block[i];
      space_offset += (first * block[i] + shift) * s[axis];
      batched_offset += first * b[axis];
    }
    if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim == 0; })) continue;
    RIVULET_RETURN_IF_ERROR(to_batch ? AddCopy(copies, 0, 0, dims, b, in_space, batched_offset, space_offset)
                                     : AddCopy(copies, 0, 0, dims, in_space, b, space_offset, batched_offset));
  }
  return PrepareCopies(node, std::move(copies), /*zero_first=*/to_batch);
}

StatusOr<Prepared> PrepareSpaceToDepth(const NodeView& node, const KernelPolicy&) { return PrepareDepth(node, true); }
StatusOr<Prepared> PrepareDepthToSpace(const NodeView& node, const KernelPolicy&) { return PrepareDepth(node, false); }
StatusOr<Prepared> PrepareSpaceToBatch(const NodeView& node, const KernelPolicy&) { return PrepareBatch(node, true); }
StatusOr<Prepared> PrepareBatchToSpace(const NodeView& node, const KernelPolicy&) { return PrepareBatch(node, false); }

RIVULET_KERNEL_OF_EVERY_SIZE("SpaceToDepth", PrepareSpaceToDepth);
RIVULET_KERNEL_OF_EVERY_SIZE("DepthToSpace", PrepareDepthToSpace);
RIVULET_KERNEL_OF_EVERY_SIZE("SpaceToBatchND", PrepareSpaceToBatch);
RIVULET_KERNEL_OF_EVERY_SIZE("BatchToSpaceND", PrepareBatchToSpace);

}  // namespace
}  // namespace rivulet
