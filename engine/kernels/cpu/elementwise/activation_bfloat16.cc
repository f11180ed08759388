// BiasAdd, its gradient, Relu and ReluGrad on bfloat16 in memory: the ops between products. The bits are those of the
// float kernels between conversions, with half the memory traffic. Also the epilogue of a product in bfloat16.
#include "engine/kernels/cpu/elementwise/activation_bfloat16.h"

#include <algorithm>

#include "engine/kernels/cpu/strided/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/activation_bfloat16.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/bfloat16-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A bfloat16's bits as a signed number increase from 0 for positive numbers.
// Numbers below the smallest normal one are compared as zeros, as in float kernels.
// 16-bit vectors have only > and <, so these limits are one beyond the range.
constexpr int16_t kBelowNormal = 0x007F, kAboveInfinity = 0x7F81;
constexpr int16_t kBelowMinusNormal = static_cast<int16_t>(0x807F), kAboveMinusInfinity = static_cast<int16_t>(0xFF81);

// Calls f(load, store) for every vector of `count` 16-bit numbers, then for each remaining number as a vector of one:
// there are no masked 16-bit loads before AVX-512.
template <class F>
HWY_INLINE void ForEachOf16Bits(int64_t count, F f) {
  const hn::ScalableTag<int16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    f(
        d, [=](const int16_t* p) HWY_ATTR { return hn::LoadU(d, p + i); },
        [=](int16_t* p, auto v) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  const hn::CappedTag<int16_t, 1> one;
  for (; i < count; ++i) {
    f(
        one, [=](const int16_t* p) HWY_ATTR { return hn::LoadU(one, p + i); },
        [=](int16_t* p, auto v) HWY_ATTR { hn::StoreU(v, one, p + i); });
  }
}

void Relu16(const int16_t* in, int16_t* out, int64_t count) {
  ForEachOf16Bits(count, [&](auto d, auto load, auto store) HWY_ATTR {
    const auto x = load(in);
    const auto negative = hn::And(hn::Gt(x, hn::Set(d, kBelowMinusNormal)), hn::Lt(x, hn::Set(d, kAboveMinusInfinity)));
    store(out, hn::IfThenZeroElse(negative, x));
  });
}

void ReluGrad16(const int16_t* gradient, const int16_t* features, int16_t* out, int64_t count) {
  ForEachOf16Bits(count, [&](auto d, auto load, auto store) HWY_ATTR {
    const auto x = load(features);
    const auto positive = hn::And(hn::Gt(x, hn::Set(d, kBelowNormal)), hn::Lt(x, hn::Set(d, kAboveInfinity)));
    store(out, hn::IfThenElseZero(positive, load(gradient)));
  });
}

template <FusedOps::Activation kActivation>
HWY_INLINE hn::Vec<BFloat16Wide> Activated16(hn::Vec<BFloat16Wide> x) {
  const BFloat16Wide d;
  // NaN stays NaN: it is neither below zero nor above six.
  if constexpr (kActivation != FusedOps::Activation::kNone) x = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  if constexpr (kActivation == FusedOps::Activation::kRelu6) {
    const auto six = hn::Set(d, 6.0f);
    x = hn::IfThenElse(hn::Gt(x, six), six, x);
  }
  return x;
}

// Relu and Relu6 keep values of 8 bits at 8 bits, so the sum may be rounded after them instead of before.
template <FusedOps::Activation kActivation>
HWY_INLINE void BiasRows16(const uint16_t* in, const uint16_t* bias, uint16_t* out, int64_t rows, int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, in += channels, out += channels) {
    ForEachBFloat16(static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      store(out, Activated16<kActivation>(hn::Add(load(in), load(bias))));
    });
  }
}

template <FusedOps::Activation kActivation>
HWY_INLINE void Rows16(const uint16_t* in, uint16_t* out, int64_t count) {
  ForEachBFloat16(static_cast<size_t>(count),
                  [&](auto load, auto store) HWY_ATTR { store(out, Activated16<kActivation>(load(in))); });
}

void Epilogue16(const FusedOps& fused, const uint16_t* in, const uint16_t* bias, uint16_t* out, int64_t rows,
                int64_t channels) {
  using A = FusedOps::Activation;
  switch (fused.activation) {
    case A::kNone:
      if (fused.bias) BiasRows16<A::kNone>(in, bias, out, rows, channels);
      return;
    case A::kRelu:
      return fused.bias ? BiasRows16<A::kRelu>(in, bias, out, rows, channels)
                        : Rows16<A::kRelu>(in, out, rows * channels);
    case A::kRelu6:
      return fused.bias ? BiasRows16<A::kRelu6>(in, bias, out, rows, channels)
                        : Rows16<A::kRelu6>(in, out, rows * channels);
  }
}

// The sums of bias.cc, in the same order: four interleaved sums per block of rows, block by block.
constexpr int64_t kBlockRows16 = 256;

void BiasAddGrad16(const uint16_t* in, uint16_t* out, int64_t rows, int64_t channels) {
  const BFloat16Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t column = 0; column < channels; column += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, channels - column));
    ForEachBFloat16(count, [&](auto load, auto store) HWY_ATTR {
      auto total = hn::Zero(d);
      for (int64_t begin = 0; begin < rows; begin += kBlockRows16) {
        const int64_t end = std::min(rows, begin + kBlockRows16);
        auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
        int64_t row = begin;
        for (; row + 4 <= end; row += 4) {
          const uint16_t* at = in + row * channels + column;
          s0 = hn::Add(s0, load(at));
          s1 = hn::Add(s1, load(at + channels));
          s2 = hn::Add(s2, load(at + 2 * channels));
          s3 = hn::Add(s3, load(at + 3 * channels));
        }
        for (; row < end; ++row) s0 = hn::Add(s0, load(in + row * channels + column));
        total = hn::Add(total, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
      }
      store(out + column, total);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(Relu16);
HWY_EXPORT(ReluGrad16);
HWY_EXPORT(Epilogue16);
HWY_EXPORT(BiasAddGrad16);

class Relu16Kernel final : public Kernel {
 public:
  explicit Relu16Kernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    HWY_DYNAMIC_DISPATCH(Relu16)(InputOf<int16_t>(context, 0), OutputOf<int16_t>(context, 0), count_);
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

class ReluGrad16Kernel final : public Kernel {
 public:
  explicit ReluGrad16Kernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    HWY_DYNAMIC_DISPATCH(ReluGrad16)
    (InputOf<int16_t>(context, 0), InputOf<int16_t>(context, 1), OutputOf<int16_t>(context, 0), count_);
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

class BiasAdd16Kernel final : public Kernel {
 public:
  BiasAdd16Kernel(int64_t rows, int64_t channels) : rows_(rows), channels_(channels) {}
  Status Run(const KernelContext& context) const override {
    HWY_DYNAMIC_DISPATCH(Epilogue16)
    ({.bias = true}, InputOf<uint16_t>(context, 0), InputOf<uint16_t>(context, 1), OutputOf<uint16_t>(context, 0),
     rows_, channels_);
    return absl::OkStatus();
  }

 private:
  int64_t rows_, channels_;
};

class BiasAddGrad16Kernel final : public Kernel {
 public:
  BiasAddGrad16Kernel(int64_t rows, int64_t channels) : rows_(rows), channels_(channels) {}
  Status Run(const KernelContext& context) const override {
    HWY_DYNAMIC_DISPATCH(BiasAddGrad16)
    (InputOf<uint16_t>(context, 0), OutputOf<uint16_t>(context, 0), rows_, channels_);
    return absl::OkStatus();
  }

 private:
  int64_t rows_, channels_;
};

// A product of two bfloat16 inputs, followed by the epilogue.
class Finished16 final : public Kernel {
 public:
  Finished16(std::unique_ptr<const Kernel> product, const FusedOps& fused, int64_t rows, int64_t channels)
      : product_(std::move(product)), fused_(fused), rows_(rows), channels_(channels) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(product_->Run(context));
    uint16_t* out = OutputOf<uint16_t>(context, 0);
    const uint16_t* bias = fused_.bias ? InputOf<uint16_t>(context, 2) : nullptr;
    HWY_DYNAMIC_DISPATCH(Epilogue16)(fused_, out, bias, out, rows_, channels_);
    return absl::OkStatus();
  }
  std::unique_ptr<KernelState> NewState() const override { return product_->NewState(); }

 private:
  std::unique_ptr<const Kernel> product_;
  FusedOps fused_;
  int64_t rows_, channels_;
};

template <typename K>
StatusOr<Prepared> PrepareElementwise16(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<K>(node.outputs[0].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "hwy";
  return prepared;
}

struct ChannelRows {
  int64_t rows, channels;
};

// UNIMPLEMENTED: channels are not last.
StatusOr<ChannelRows> RowsOfChannels(const NodeView& node) {
  const Shape& shape = node.inputs[0].shape;
  const std::string* format = node.node.FindAttr<std::string>("data_format");
  if (shape.rank() < 2 || (format != nullptr && *format == "NCHW" && shape.rank() > 2))
    return Unimplemented("a bias in bfloat16 for channels that are not last");
  const int64_t channels = shape.dim(shape.rank() - 1);
  if (channels == 0) return Unimplemented("a bias in bfloat16 of no channels");
  return ChannelRows{shape.elements() / channels, channels};
}

StatusOr<Prepared> PrepareBiasAdd16(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const ChannelRows c, RowsOfChannels(node));
  if (node.inputs[1].shape != Shape({c.channels}))
    return Unimplemented("a bias of {} in bfloat16 for {}", node.inputs[1].shape.ToString(),
                         node.inputs[0].shape.ToString());
  Prepared prepared;
  prepared.kernel = std::make_unique<BiasAdd16Kernel>(c.rows, c.channels);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(c.rows * c.channels);
  return prepared;
}

StatusOr<Prepared> PrepareBiasAddGrad16(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const ChannelRows c, RowsOfChannels(node));
  Prepared prepared;
  prepared.kernel = std::make_unique<BiasAddGrad16Kernel>(c.rows, c.channels);
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(c.rows * c.channels);
  return prepared;
}

RIVULET_KERNEL("Relu", Device::kCpu, bfloat16, PrepareElementwise16<Relu16Kernel>);
RIVULET_KERNEL("ReluGrad", Device::kCpu, bfloat16, PrepareElementwise16<ReluGrad16Kernel>);
RIVULET_KERNEL("BiasAdd", Device::kCpu, bfloat16, PrepareBiasAdd16);
RIVULET_KERNEL("BiasAddGrad", Device::kCpu, bfloat16, PrepareBiasAddGrad16);

}  // namespace

Prepared WithBFloat16Epilogue(Prepared product, const FusedOps& fused, int64_t rows, int64_t channels) {
  product.kernel = std::make_unique<Finished16>(std::move(product.kernel), fused, rows, channels);
  product.in_place.clear();
  product.implementation += ", epilogue";
  return product;
}

}  // namespace rivulet
#endif
