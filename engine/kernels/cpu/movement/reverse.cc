// ReverseV2 and Roll as copies; ReverseSequence, whose lengths are known only at run time.
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

StatusOr<Prepared> PrepareReverse(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Ints axes, ConstantInput(node, 1, "the axes"));
  const Shape& shape = node.inputs[0].shape;
  const Ints to = RowMajorStrides(shape);
  Ints from = to;
  int64_t offset = 0;
  for (int64_t axis : axes) {
    const size_t i = AxisOf(axis, shape.rank());
    offset += (shape.dim(static_cast<int>(i)) - 1) * from[i];
    from[i] = -from[i];
  }
  std::vector<StridedCopy> copies;
  if (shape.elements() > 0)
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, shape.dims(), to, std::move(from), 0, offset));
  return PrepareCopies(node, std::move(copies));
}

// Each rolled axis is split into two parts, which are swapped.
StatusOr<Prepared> PrepareRoll(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Ints shifts, ConstantInput(node, 1, "the shift"));
  RIVULET_ASSIGN_OR_RETURN(const Ints axes, ConstantInput(node, 2, "the axis"));
  const Shape& shape = node.inputs[0].shape;
  const Ints strides = RowMajorStrides(shape);
  Ints shift(strides.size(), 0);
  std::vector<StridedCopy> copies;
  if (shape.elements() == 0) return PrepareCopies(node, std::move(copies));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = AxisOf(axes[i], shape.rank());
    const int64_t size = shape.dim(static_cast<int>(axis));
    shift[axis] = ((shift[axis] + shifts[i] % size) % size + size) % size;
  }
  struct Part {
    Ints dims;
    int64_t to = 0, from = 0;
  };
  std::vector<Part> parts = {Part{}};
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const int64_t size = shape.dim(static_cast<int>(axis)), by = shift[axis];
    std::vector<Part> next;
    for (const Part& part : parts) {
      const auto add = [&](int64_t count, int64_t to, int64_t from) {
        if (count == 0) return;
        Part more = part;
        more.dims.push_back(count);
        more.to += to * strides[axis];
        more.from += from * strides[axis];
        next.push_back(std::move(more));
      };
      add(size - by, by, 0);
      add(by, 0, size - by);
    }
    parts = std::move(next);
    if (parts.size() > 4096) return Unimplemented("Roll '{}' rolls along more than 12 axes", node.node.name());
  }
  for (const Part& part : parts)
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, part.dims, strides, strides, part.to, part.from));
  return PrepareCopies(node, std::move(copies));
}

// The tensor as [outer, low, middle, high, inner], where low and high are the batch and the sequence axes.
struct SequenceLayout {
  int64_t outer = 1, low = 1, middle = 1, high = 1;
  size_t inner_bytes = 0;
  bool sequence_is_high = true;
};

template <typename Length>
class ReverseSequenceKernel final : public Kernel {
 public:
  explicit ReverseSequenceKernel(const SequenceLayout& layout) : l_(layout) {}
  Status Run(const KernelContext& context) const override {
    const Length* lengths = InputOf<Length>(context, 1);
    const int64_t batch = l_.sequence_is_high ? l_.low : l_.high, steps = l_.sequence_is_high ? l_.high : l_.low;
    for (int64_t i = 0; i < batch; ++i)
      if (lengths[i] < 0 || lengths[i] > steps)
        return InvalidArgument("seq_lengths[{}] is {}, outside [0, {}]", i, lengths[i], steps);
    const std::byte* in = context.inputs[0];
    std::byte* out = context.outputs[0];
    const auto reversed = [&](int64_t at, int64_t length) { return at < length ? length - 1 - at : at; };
    for (int64_t outer = 0; outer < l_.outer; ++outer) {
      for (int64_t low = 0; low < l_.low; ++low) {
        for (int64_t middle = 0; middle < l_.middle; ++middle) {
          for (int64_t high = 0; high < l_.high; ++high, out += l_.inner_bytes) {
            const int64_t from_low = l_.sequence_is_high ? low : reversed(low, lengths[high]);
            const int64_t from_high = l_.sequence_is_high ? reversed(high, lengths[low]) : high;
            const int64_t from = ((outer * l_.low + from_low) * l_.middle + middle) * l_.high + from_high;
            std::memcpy(out, in + static_cast<size_t>(from) * l_.inner_bytes, l_.inner_bytes);
          }
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  SequenceLayout l_;
};

StatusOr<Prepared> PrepareReverseSequence(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  const int sequence = static_cast<int>(node.attr<int64_t>("seq_dim"));
  const int batch = static_cast<int>(node.attr<int64_t>("batch_dim"));
  const int low = std::min(sequence, batch), high = std::max(sequence, batch);
  SequenceLayout layout;
  int64_t inner = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t dim = shape.dim(axis);
    (axis < low    ? layout.outer
     : axis == low ? layout.low
     : axis < high ? layout.middle
     : axis > high ? inner
                   : layout.high) *= dim;
  }
  layout.inner_bytes = static_cast<size_t>(inner) * SizeOf(node.inputs[0].dtype);
  layout.sequence_is_high = sequence == high;
  if (layout.inner_bytes == 0) layout.outer = 0;
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<ReverseSequenceKernel<int32_t>>(layout);
  else
    prepared.kernel = std::make_unique<ReverseSequenceKernel<int64_t>>(layout);
  prepared.implementation = "copy";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("ReverseV2", PrepareReverse);
RIVULET_KERNEL_OF_EVERY_SIZE("Roll", PrepareRoll);
RIVULET_KERNEL_OF_EVERY_SIZE("ReverseSequence", PrepareReverseSequence);

}  // namespace
}  // namespace rivulet
