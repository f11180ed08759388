// Elements chosen by index, and their way back.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/constant_input.h"
#include "engine/kernels/cpu/copies.h"
#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

// params as [outer, size, inner bytes].
template <typename Index>
class GatherKernel final : public Kernel {
 public:
  GatherKernel(int64_t outer, int64_t size, size_t inner_bytes, int64_t indices)
      : outer_(outer), size_(size), inner_bytes_(inner_bytes), indices_(indices) {}
  Status Run(const KernelContext& context) const override {
    const Index* indices = InputOf<Index>(context, 1);
    for (int64_t i = 0; i < indices_; ++i)
      if (indices[i] < 0 || indices[i] >= size_)
        return InvalidArgument("index {} at position {} is outside [0, {})", indices[i], i, size_);
    const std::byte* params = context.inputs[0];
    std::byte* out = context.outputs[0];
    for (int64_t outer = 0; outer < outer_; ++outer, params += static_cast<size_t>(size_) * inner_bytes_)
      for (int64_t i = 0; i < indices_; ++i, out += inner_bytes_)
        std::memcpy(out, params + static_cast<size_t>(indices[i]) * inner_bytes_, inner_bytes_);
    return absl::OkStatus();
  }

 private:
  int64_t outer_, size_;
  size_t inner_bytes_;
  int64_t indices_;
};

StatusOr<Prepared> PrepareGather(const NodeView& node, const KernelPolicy&) {
  const Shape &params = node.inputs[0].shape, &indices = node.inputs[1].shape;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 2, "the axis"));
  const auto axis = static_cast<int>(AxisOf(given, params.rank()));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= params.dim(i);
  for (int i = axis + 1; i < params.rank(); ++i) inner *= params.dim(i);
  const size_t inner_bytes = static_cast<size_t>(inner) * SizeOf(node.inputs[0].dtype);
  if (inner_bytes == 0) outer = 0;
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<GatherKernel<int32_t>>(outer, params.dim(axis), inner_bytes, indices.elements());
  else
    prepared.kernel = std::make_unique<GatherKernel<int64_t>>(outer, params.dim(axis), inner_bytes, indices.elements());
  prepared.implementation = "copy";
  return prepared;
}

template <typename T, typename Index>
class SegmentSumKernel final : public Kernel {
 public:
  SegmentSumKernel(int64_t ids, int64_t inner, int64_t segments) : ids_(ids), inner_(inner), segments_(segments) {}
  Status Run(const KernelContext& context) const override {
    const T* data = InputOf<T>(context, 0);
    const Index* ids = InputOf<Index>(context, 1);
    T* out = OutputOf<T>(context, 0);
    for (int64_t i = 0; i < ids_; ++i)
      if (ids[i] >= segments_)
        return InvalidArgument("segment id {} at position {} is not below num_segments = {}", ids[i], i, segments_);
    std::fill_n(out, segments_ * inner_, T{0});
    for (int64_t i = 0; i < ids_; ++i, data += inner_) {
      if (ids[i] < 0) continue;
      T* sum = out + static_cast<int64_t>(ids[i]) * inner_;
      for (int64_t j = 0; j < inner_; ++j) {
        if constexpr (std::is_integral_v<T>) {
          using Unsigned = std::make_unsigned_t<T>;
          sum[j] = static_cast<T>(static_cast<Unsigned>(sum[j]) + static_cast<Unsigned>(data[j]));
        } else {
          sum[j] += data[j];
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t ids_, inner_, segments_;
};

template <typename T>
StatusOr<Prepared> PrepareSegmentSum(const NodeView& node, const KernelPolicy&) {
  const Shape &data = node.inputs[0].shape, &ids = node.inputs[1].shape;
  int64_t inner = 1;
  for (int axis = ids.rank(); axis < data.rank(); ++axis) inner *= data.dim(axis);
  const int64_t segments = node.outputs[0].shape.dim(0);
  Prepared prepared;
  if (node.inputs[1].dtype == DType::kInt32)
    prepared.kernel = std::make_unique<SegmentSumKernel<T, int32_t>>(ids.elements(), inner, segments);
  else
    prepared.kernel = std::make_unique<SegmentSumKernel<T, int64_t>>(ids.elements(), inner, segments);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(data.elements());
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
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCpu, float, PrepareSegmentSum<float>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCpu, double, PrepareSegmentSum<double>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCpu, int32_t, PrepareSegmentSum<int32_t>);
RIVULET_KERNEL("UnsortedSegmentSum", Device::kCpu, int64_t, PrepareSegmentSum<int64_t>);
RIVULET_KERNEL_OF_EVERY_SIZE("OneHot", PrepareOneHot);
RIVULET_KERNEL_OF_EVERY_SIZE("DynamicStitch", PrepareStitch);

}  // namespace
}  // namespace rivulet
