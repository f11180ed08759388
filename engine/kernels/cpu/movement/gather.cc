// Elements selected by index, and the reverse.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/movement/scatter.h"
#include "engine/kernels/cpu/strided/constant_input.h"

namespace rivulet {
namespace {

// params as [batch, outer, size, inner], indices as [batch, indices].
struct GatherSizes {
  int64_t batch = 1, outer = 1, size = 0, inner = 1, indices = 0;

  template <typename Index>
  Status Check(const Index* index) const {
    for (int64_t i = 0; i < batch * indices; ++i)
      if (index[i] < 0 || index[i] >= size)
        return InvalidArgument("index {} at position {} is outside [0, {})", index[i], i, size);
    return absl::OkStatus();
  }
};

GatherSizes SizesOf(const Shape& params, const Shape& indices, int axis, int64_t batch_dims) {
  const int batch = static_cast<int>(batch_dims < 0 ? batch_dims + indices.rank() : batch_dims);
  GatherSizes sizes;
  for (int i = 0; i < batch; ++i) sizes.batch *= params.dim(i);
  for (int i = batch; i < axis; ++i) sizes.outer *= params.dim(i);
  sizes.size = params.dim(axis);
  for (int i = axis + 1; i < params.rank(); ++i) sizes.inner *= params.dim(i);
  sizes.indices = 1;
  for (int i = batch; i < indices.rank(); ++i) sizes.indices *= indices.dim(i);
  return sizes;
}

template <typename Index>
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const GatherSizes& sizes, size_t element)
      : s_(sizes), inner_bytes_(static_cast<size_t>(sizes.inner) * element) {}
  Status Run(const KernelContext& context) const override {
    const Index* indices = InputOf<Index>(context, 1);
    RIVULET_RETURN_IF_ERROR(s_.Check(indices));
    if (inner_bytes_ == 0) return absl::OkStatus();
    const std::byte* params = context.inputs[0];
    std::byte* out = context.outputs[0];
    for (int64_t batch = 0; batch < s_.batch; ++batch, indices += s_.indices)
      for (int64_t outer = 0; outer < s_.outer; ++outer, params += static_cast<size_t>(s_.size) * inner_bytes_)
        for (int64_t i = 0; i < s_.indices; ++i, out += inner_bytes_)
          std::memcpy(out, params + static_cast<size_t>(indices[i]) * inner_bytes_, inner_bytes_);
    return absl::OkStatus();
  }

 private:
  GatherSizes s_;
  size_t inner_bytes_;
};

Prepared Gathering(const NodeView& node, int axis, int64_t batch_dims) {
  const GatherSizes sizes = SizesOf(node.inputs[0].shape, node.inputs[1].shape, axis, batch_dims);
  const size_t element = SizeOf(node.inputs[0].dtype);
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<GatherKernel<int32_t>>(sizes, element);
  else
    prepared.kernel = std::make_unique<GatherKernel<int64_t>>(sizes, element);
  prepared.implementation = "copy";
  return prepared;
}

StatusOr<Prepared> PrepareGather(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 2, "the axis"));
  return Gathering(node, static_cast<int>(AxisOf(given, node.inputs[0].shape.rank())),
                   node.attr<int64_t>("batch_dims"));
}

StatusOr<Prepared> PrepareGatherV1(const NodeView& node, const KernelPolicy&) { return Gathering(node, 0, 0); }

template <typename T>
class GatherGradKernel final : public Kernel {
 public:
  GatherGradKernel(const GatherSizes& sizes, bool wide) : s_(sizes), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(wide_ ? s_.Check(InputOf<int64_t>(context, 1)) : s_.Check(InputOf<int32_t>(context, 1)));
    const IndexView indices{context.inputs[1], wide_};
    const T* dy = InputOf<T>(context, 0);
    T* out = OutputOf<T>(context, 0);
    std::fill_n(out, s_.batch * s_.outer * s_.size * s_.inner, T{0});
    for (int64_t batch = 0; batch < s_.batch; ++batch)
      for (int64_t outer = 0; outer < s_.outer; ++outer, out += s_.size * s_.inner)
        for (int64_t i = 0; i < s_.indices; ++i, dy += s_.inner)
          Combine<ScatterOp::kAdd>(out + indices[batch * s_.indices + i] * s_.inner, dy, s_.inner);
    return absl::OkStatus();
  }

 private:
  GatherSizes s_;
  bool wide_;
};

template <typename T>
StatusOr<Prepared> PrepareGatherGrad(const NodeView& node, const KernelPolicy&) {
  const Shape &params = node.outputs[0].shape, &indices = node.inputs[1].shape;
  Prepared prepared;
  prepared.kernel = std::make_unique<GatherGradKernel<T>>(
      SizesOf(params, indices, static_cast<int>(AxisOf(node.attr<int64_t>("axis"), params.rank())),
              node.attr<int64_t>("batch_dims")),
      node.inputs[1].dtype == DType::kInt64);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.inputs[0].shape.elements());
  return prepared;
}

// Output as [outer, depth, inner], indices as [outer, inner].
template <typename Word, typename Index>
class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(int64_t outer, int64_t depth, int64_t inner) : outer_(outer), depth_(depth), inner_(inner) {}
  Status Run(const KernelContext& context) const override {
    const Index* indices = InputOf<Index>(context, 0);
    const Word on = *InputOf<Word>(context, 2), off = *InputOf<Word>(context, 3);
    Word* out = OutputOf<Word>(context, 0);
    std::fill_n(out, outer_ * depth_ * inner_, off);
    for (int64_t o = 0; o < outer_; ++o)
      for (int64_t i = 0; i < inner_; ++i) {
        const auto index = static_cast<int64_t>(indices[o * inner_ + i]);
        if (index >= 0 && index < depth_) out[(o * depth_ + index) * inner_ + i] = on;
      }
    return absl::OkStatus();
  }

 private:
  int64_t outer_, depth_, inner_;
};

template <typename Word>
std::unique_ptr<const Kernel> MakeOneHot(DType index, int64_t outer, int64_t depth, int64_t inner) {
  if (index == DType::kUint8) return std::make_unique<OneHotKernel<Word, uint8_t>>(outer, depth, inner);
  if (index == DType::kInt8) return std::make_unique<OneHotKernel<Word, int8_t>>(outer, depth, inner);
  if (index == DType::kInt32) return std::make_unique<OneHotKernel<Word, int32_t>>(outer, depth, inner);
  return std::make_unique<OneHotKernel<Word, int64_t>>(outer, depth, inner);
}

StatusOr<Prepared> PrepareOneHot(const NodeView& node, const KernelPolicy&) {
  const Shape &indices = node.inputs[0].shape, &output = node.outputs[0].shape;
  const auto axis = static_cast<int>(AxisOf(node.attr<int64_t>("axis"), output.rank()));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= indices.dim(i);
  for (int i = axis; i < indices.rank(); ++i) inner *= indices.dim(i);
  const DType index = node.inputs[0].dtype;
  Prepared prepared;
  prepared.implementation = "loop";
  switch (SizeOf(node.outputs[0].dtype)) {
    case 1:
      prepared.kernel = MakeOneHot<uint8_t>(index, outer, output.dim(axis), inner);
      break;
    case 2:
      prepared.kernel = MakeOneHot<uint16_t>(index, outer, output.dim(axis), inner);
      break;
    case 4:
      prepared.kernel = MakeOneHot<uint32_t>(index, outer, output.dim(axis), inner);
      break;
    case 8:
      prepared.kernel = MakeOneHot<uint64_t>(index, outer, output.dim(axis), inner);
      break;
    default:
      return Unimplemented("OneHot of {}", Name(node.outputs[0].dtype));
  }
  return prepared;
}

class StitchKernel final : public Kernel {
 public:
  StitchKernel(std::vector<int64_t> counts, size_t inner_bytes, int64_t size)
      : counts_(std::move(counts)), inner_bytes_(inner_bytes), size_(size) {}
  Status Run(const KernelContext& context) const override {
    std::memset(context.outputs[0], 0, static_cast<size_t>(size_) * inner_bytes_);
    for (size_t part = 0; part < counts_.size(); ++part) {
      const int32_t* indices = InputOf<int32_t>(context, part);
      const std::byte* data = context.inputs[counts_.size() + part];
      for (int64_t i = 0; i < counts_[part]; ++i, data += inner_bytes_) {
        if (indices[i] < 0 || indices[i] >= size_)
          return InvalidArgument("index {} of part {} is outside [0, {})", indices[i], part, size_);
        std::memcpy(context.outputs[0] + static_cast<size_t>(indices[i]) * inner_bytes_, data, inner_bytes_);
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<int64_t> counts_;
  size_t inner_bytes_;
  int64_t size_;
};

StatusOr<Prepared> PrepareStitch(const NodeView& node, const KernelPolicy&) {
  const size_t parts = node.inputs.size() / 2;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < parts; ++i) counts.push_back(node.inputs[i].shape.elements());
  const Shape& output = node.outputs[0].shape;
  int64_t inner = 1;
  for (int axis = 1; axis < output.rank(); ++axis) inner *= output.dim(axis);
  Prepared prepared;
  prepared.kernel = std::make_unique<StitchKernel>(
      std::move(counts), static_cast<size_t>(inner) * SizeOf(node.outputs[0].dtype), output.dim(0));
  prepared.implementation = "copy";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("GatherV2", PrepareGather);
RIVULET_KERNEL_OF_EVERY_SIZE("Gather", PrepareGatherV1);
RIVULET_KERNEL("GatherGrad", Device::kCpu, float, PrepareGatherGrad<float>);
RIVULET_KERNEL("GatherGrad", Device::kCpu, double, PrepareGatherGrad<double>);
RIVULET_KERNEL_OF_EVERY_SIZE("OneHot", PrepareOneHot);
RIVULET_KERNEL_OF_EVERY_SIZE("DynamicStitch", PrepareStitch);

}  // namespace
}  // namespace rivulet
