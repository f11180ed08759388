// BiasAdd, Relu and ReluGrad on bfloat16 as it lies in memory: what stands between products. The bits are those of the
// float kernels between conversions, at half the bytes.
#include <algorithm>

#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

// A bfloat16's bits as a signed number count up from 0 for positive numbers. Numbers below the smallest normal one are
// compared as zeros, as float kernels do.
constexpr int16_t kSmallestNormal = 0x0080, kInfinity = 0x7F80;
constexpr int16_t kMinusInfinity = static_cast<int16_t>(0xFF80), kMinusSmallestNormal = static_cast<int16_t>(0x8080);

class Relu16 final : public Kernel {
 public:
  explicit Relu16(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const int16_t* in = InputOf<int16_t>(context, 0);
    int16_t* out = OutputOf<int16_t>(context, 0);
    const int64_t count = count_;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const int16_t x = in[i];
      const bool negative = (x >= kMinusSmallestNormal) & (x <= kMinusInfinity);
      out[i] = negative ? int16_t{0} : x;
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

class ReluGrad16 final : public Kernel {
 public:
  explicit ReluGrad16(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    const int16_t *gradient = InputOf<int16_t>(context, 0), *features = InputOf<int16_t>(context, 1);
    int16_t* out = OutputOf<int16_t>(context, 0);
    const int64_t count = count_;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const int16_t x = features[i];
      const bool positive = (x >= kSmallestNormal) & (x <= kInfinity);
      out[i] = positive ? gradient[i] : int16_t{0};
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

class BiasAdd16 final : public Kernel {
 public:
  BiasAdd16(int64_t rows, int64_t channels) : rows_(rows), channels_(channels) {}
  static constexpr int64_t kBlock = 4096;  // elements at a time: conversions stay in the first-level cache
  size_t scratch_bytes() const { return static_cast<size_t>(channels_ + std::max(kBlock, channels_)) * sizeof(float); }

  Status Run(const KernelContext& context) const override {
    float* bias = reinterpret_cast<float*>(context.scratch);
    float* block = bias + channels_;
    Float32From16(DType::kBFloat16, context.inputs[1], bias, channels_);
    const int64_t rows_at_once = std::max<int64_t>(1, kBlock / channels_);
    for (int64_t row = 0; row < rows_; row += rows_at_once) {
      const int64_t rows = std::min(rows_at_once, rows_ - row), count = rows * channels_;
      const size_t offset = static_cast<size_t>(row * channels_) * sizeof(bfloat16);
      Float32From16(DType::kBFloat16, context.inputs[0] + offset, block, count);
      for (int64_t r = 0; r < rows; ++r) {
        float* at = block + r * channels_;
        const int64_t channels = channels_;
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) at[c] += bias[c];
      }
      Float16From32(DType::kBFloat16, block, context.outputs[0] + offset, count);
    }
    return absl::OkStatus();
  }

 private:
  int64_t rows_, channels_;
};

template <typename K>
StatusOr<Prepared> PrepareElementwise(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<K>(node.outputs[0].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  return prepared;
}

StatusOr<Prepared> PrepareBiasAdd16(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  const std::string* format = node.node.FindAttr<std::string>("data_format");
  if (shape.rank() < 2 || (format != nullptr && *format == "NCHW" && shape.rank() > 2))
    return Unimplemented("a bias in bfloat16 for channels that are not last");
  const int64_t channels = shape.dim(shape.rank() - 1);
  if (node.inputs[1].shape != Shape({channels}) || channels == 0)
    return Unimplemented("a bias of {} in bfloat16 for {}", node.inputs[1].shape.ToString(), shape.ToString());
  auto kernel = std::make_unique<BiasAdd16>(shape.elements() / channels, channels);
  Prepared prepared;
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(shape.elements());
  return prepared;
}

RIVULET_KERNEL("Relu", Device::kCpu, bfloat16, PrepareElementwise<Relu16>);
RIVULET_KERNEL("ReluGrad", Device::kCpu, bfloat16, PrepareElementwise<ReluGrad16>);
RIVULET_KERNEL("BiasAdd", Device::kCpu, bfloat16, PrepareBiasAdd16);

}  // namespace
}  // namespace rivulet
