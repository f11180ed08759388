// Slices combined by segment, in their order.
#include <limits>

#include "engine/kernels/cpu/movement/scatter.h"
#include "engine/kernels/cpu/movement/sparse_rows.h"

namespace rivulet {
namespace {

// The value of a segment without slices.
template <ScatterOp kOp, typename T>
constexpr T Empty() {
  if (kOp == ScatterOp::kMul) return T{1};
  if (kOp == ScatterOp::kMax) return std::numeric_limits<T>::lowest();
  if (kOp == ScatterOp::kMin) return std::numeric_limits<T>::max();
  return T{0};
}

struct Segments {
  int64_t ids = 0, inner = 0, segments = 0;
  bool wide = false;

  Status Check(const IndexView& id) const {
    for (int64_t i = 0; i < ids; ++i)
      if (id[i] >= segments)
        return InvalidArgument("segment id {} at position {} is not below num_segments = {}", id[i], i, segments);
    return absl::OkStatus();
  }
};

// A segment sum is the gradient of selected rows. If plain SGD follows, only these rows are accessed.
class SegmentDescent final : public Kernel {
 public:
  explicit SegmentDescent(const Segments& segments) : s_(segments) {}
  Status Run(const KernelContext& context) const override {
    const IndexView ids{context.inputs[1], s_.wide};
    RIVULET_RETURN_IF_ERROR(s_.Check(ids));
    const float* data = InputOf<float>(context, 0);
    const float rate = *InputOf<float>(context, 3);
    float* variable = As<float>(context.variables[0]);
    ForEachDistinctRow(ids, s_.ids, data, s_.inner, context.scratch, [&](int64_t row, const float* sum) {
      DescendRow(variable + row * s_.inner, rate, sum, s_.inner);
    });
    return absl::OkStatus();
  }

 private:
  Segments s_;
};

template <ScatterOp kOp, typename T>
class SegmentKernel final : public Kernel {
 public:
  explicit SegmentKernel(const Segments& segments) : s_(segments) {}
  Status Run(const KernelContext& context) const override {
    const T* data = InputOf<T>(context, 0);
    const IndexView ids{context.inputs[1], s_.wide};
    RIVULET_RETURN_IF_ERROR(s_.Check(ids));
    T* out = OutputOf<T>(context, 0);
    std::fill_n(out, s_.segments * s_.inner, Empty<kOp, T>());
    for (int64_t i = 0; i < s_.ids; ++i)
      if (const int64_t id = ids[i]; id >= 0) Combine<kOp>(out + id * s_.inner, data + i * s_.inner, s_.inner);
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FusedGradientDescent() const override {
    if constexpr (kOp == ScatterOp::kAdd && std::is_same_v<T, float>) return std::make_unique<SegmentDescent>(s_);
    return nullptr;
  }

 private:
  Segments s_;
};

template <ScatterOp kOp, typename T>
StatusOr<Prepared> PrepareSegment(const NodeView& node, const KernelPolicy&) {
  const Shape &data = node.inputs[0].shape, &ids = node.inputs[1].shape;
  Segments s;
  s.ids = ids.elements();
  s.inner = 1;
  for (int axis = ids.rank(); axis < data.rank(); ++axis) s.inner *= data.dim(axis);
  s.segments = node.outputs[0].shape.dim(0);
  s.wide = node.inputs[1].dtype == DType::kInt64;
  Prepared prepared;
  prepared.kernel = std::make_unique<SegmentKernel<kOp, T>>(s);
  // For the fused descent.
  if (kOp == ScatterOp::kAdd && std::is_same_v<T, float>)
    prepared.scratch_bytes = DistinctRowsScratch<float>(s.ids, s.inner);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(data.elements());
  return prepared;
}

#define RIVULET_SEGMENT_KERNEL(type)                                                                  \
  RIVULET_KERNEL("UnsortedSegmentSum", Device::kCpu, type, (PrepareSegment<ScatterOp::kAdd, type>));  \
  RIVULET_KERNEL("UnsortedSegmentProd", Device::kCpu, type, (PrepareSegment<ScatterOp::kMul, type>)); \
  RIVULET_KERNEL("UnsortedSegmentMax", Device::kCpu, type, (PrepareSegment<ScatterOp::kMax, type>));  \
  RIVULET_KERNEL("UnsortedSegmentMin", Device::kCpu, type, (PrepareSegment<ScatterOp::kMin, type>))
RIVULET_SEGMENT_KERNEL(float);
RIVULET_SEGMENT_KERNEL(double);
RIVULET_SEGMENT_KERNEL(int32_t);
RIVULET_SEGMENT_KERNEL(int64_t);

}  // namespace
}  // namespace rivulet
