// BiasAdd and its gradient. The gradient's sums have a fixed order, for any vector length: four interleaved sums per
// block of rows, block by block.
#include <algorithm>

#include "engine/kernels/cpu/elementwise/choose.h"
#include "engine/program/kernel.h"
#include "engine/program/lane_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/bias.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlockRows = 256;  // limits each partial sum: the error grows with rows / 256 + 64

template <typename T>
HWY_INLINE void BiasAdd(const T* in, const T* bias, T* out, int64_t rows, int64_t channels) {
  const hn::ScalableTag<T> d;
  for (int64_t row = 0; row < rows; ++row, in += channels, out += channels) {
    ForEachVector(d, static_cast<size_t>(channels),
                  [&](auto load, auto store) HWY_ATTR { store(out, hn::Add(load(in), load(bias))); });
  }
}

// Sums of rows begin .. end - 1, for the columns that `load` loads.
template <class D, typename T, class Load>
HWY_INLINE hn::Vec<D> SumOfRows(D d, const T* in, int64_t begin, int64_t end, int64_t channels, const Load& load) {
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    const T* at = in + row * channels;
    s0 = hn::Add(s0, load(at));
    s1 = hn::Add(s1, load(at + channels));
    s2 = hn::Add(s2, load(at + 2 * channels));
    s3 = hn::Add(s3, load(at + 3 * channels));
  }
  for (; row < end; ++row) s0 = hn::Add(s0, load(in + row * channels));
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

// The same for kVectors whole vectors of adjacent columns, added to `total`. Wide rows are a page apart: all accesses
// to a page happen in one pass.
template <int kVectors, class D, typename T>
HWY_INLINE void AddSumsOfRows(D d, const T* in, int64_t begin, int64_t end, int64_t channels,
                              hn::Vec<D> (&total)[kVectors]) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[4][kVectors];
  for (auto& vectors : sum)
    for (auto& vector : vectors) vector = hn::Zero(d);
  const T* at = in + begin * channels;
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
#pragma GCC unroll 4
    for (auto& vectors : sum) {
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) vectors[v] = hn::Add(vectors[v], hn::LoadU(d, at + v * lanes));
      at += channels;
    }
  }
  for (; row < end; ++row, at += channels) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) sum[0][v] = hn::Add(sum[0][v], hn::LoadU(d, at + v * lanes));
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v)
    total[v] = hn::Add(total[v], hn::Add(hn::Add(sum[0][v], sum[1][v]), hn::Add(sum[2][v], sum[3][v])));
}

// Columns per pass, so that their sums are in the nearest cache: a page of each row.
template <typename T>
constexpr int64_t kColumnsAtOnce = 4096 / static_cast<int64_t>(sizeof(T));

// The sums of AddSumsOfRows for `columns` columns, a whole number of vectors, with the same bits, but eight rows at a
// time: each is read from start to end.
template <class D, typename T>
HWY_INLINE void SumsAlongRows(D d, const T* in, int64_t rows, int64_t channels, int64_t columns,
                              T* HWY_RESTRICT total) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T sums[4][kColumnsAtOnce<T>];
  std::fill_n(total, columns, T{0});
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = std::min(rows, begin + kBlockRows);
    for (auto& sum : sums) std::fill_n(sum, columns, T{0});
    int64_t row = begin;
    for (; row + 8 <= end; row += 8) {
      const T* const at = in + row * channels;
      for (int64_t column = 0; column < columns; column += lanes) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < 4; ++i) {
          const T* const from = at + i * channels + column;
          auto sum = hn::Add(hn::Load(d, sums[i] + column), hn::LoadU(d, from));
          sum = hn::Add(sum, hn::LoadU(d, from + 4 * channels));
          hn::Store(sum, d, sums[i] + column);
        }
      }
    }
    // Four remaining rows have a sum each, and fewer than four belong to the first sum.
    const int64_t four = row + 4 <= end ? row + 4 : row;
    for (int64_t i = 0; row < end; ++row, i = row < four ? i + 1 : 0)
      for (int64_t column = 0; column < columns; column += lanes)
        hn::Store(hn::Add(hn::Load(d, sums[i] + column), hn::LoadU(d, in + row * channels + column)), d,
                  sums[i] + column);
    for (int64_t column = 0; column < columns; column += lanes) {
      const auto sum = [&](int i) HWY_ATTR { return hn::Load(d, sums[i] + column); };
      hn::Store(hn::Add(hn::Load(d, total + column), hn::Add(hn::Add(sum(0), sum(1)), hn::Add(sum(2), sum(3)))), d,
                total + column);
    }
  }
}

// Calls finish(sum, load, store) for every vector of columns: load and store are ForEachVector's, starting at that
// column.
template <typename T, class F>
HWY_INLINE void ForEachSum(const T* in, int64_t rows, int64_t channels, const F& finish) {
  const hn::ScalableTag<T> d;
  // Few enough for sums in registers.
  constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t row_bytes = channels * static_cast<int64_t>(sizeof(T));
  int64_t column = 0;
  if (ChooseSumsOfRows(rows, row_bytes) == SumsOfRows::kAlongRows) {
    HWY_ALIGN T sums[kColumnsAtOnce<T>];
    while (column + lanes <= channels) {
      const int64_t columns = std::min(kColumnsAtOnce<T>, (channels - column) / lanes * lanes);
      SumsAlongRows(d, in + column, rows, channels, columns, sums);
      for (int64_t i = 0; i < columns; i += lanes, column += lanes)
        finish(
            hn::Load(d, sums + i), [&](const T* p) HWY_ATTR { return hn::LoadU(d, p + column); },
            [&](T* p, auto v) HWY_ATTR { hn::StoreU(v, d, p + column); });
    }
  }
  for (; column + kVectors * lanes <= channels; column += kVectors * lanes) {
    hn::Vec<decltype(d)> total[kVectors];
    for (auto& vector : total) vector = hn::Zero(d);
    for (int64_t begin = 0; begin < rows; begin += kBlockRows)
      AddSumsOfRows<kVectors>(d, in + column, begin, std::min(rows, begin + kBlockRows), channels, total);
    int64_t place = column;
    for (const auto& vector : total) {
      finish(
          vector, [&](const T* p) HWY_ATTR { return hn::LoadU(d, p + place); },
          [&](T* p, auto v) HWY_ATTR { hn::StoreU(v, d, p + place); });
      place += lanes;
    }
  }
  ForEachVector(d, static_cast<size_t>(channels - column), [&](auto load, auto store) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t begin = 0; begin < rows; begin += kBlockRows)
      sum = hn::Add(sum, SumOfRows(d, in + column, begin, std::min(rows, begin + kBlockRows), channels, load));
    finish(
        sum, [&](const T* p) HWY_ATTR { return load(p + column); },
        [&](T* p, auto v) HWY_ATTR { store(p + column, v); });
  });
}

template <typename T>
HWY_INLINE void BiasAddGrad(const T* in, T* out, int64_t rows, int64_t channels) {
  ForEachSum(in, rows, channels, [&](auto sum, auto, auto store) HWY_ATTR { store(out, sum); });
}

// bias = from - rate · gradient, with product and difference rounded separately as in ResourceApplyGradientDescent.
void BiasDescentF32(const float* in, const float* from, float rate, float* bias, int64_t rows, int64_t channels) {
  const hn::ScalableTag<float> d;
  const auto rates = hn::Set(d, rate);
  ForEachSum(in, rows, channels,
             [&](auto sum, auto load, auto store) HWY_ATTR { store(bias, hn::Sub(load(from), hn::Mul(rates, sum))); });
}

void BiasAddF32(const float* in, const float* bias, float* out, int64_t rows, int64_t channels) {
  BiasAdd(in, bias, out, rows, channels);
}
void BiasAddF64(const double* in, const double* bias, double* out, int64_t rows, int64_t channels) {
  BiasAdd(in, bias, out, rows, channels);
}
void BiasAddGradF32(const float* in, float* out, int64_t rows, int64_t channels) {
  BiasAddGrad(in, out, rows, channels);
}
void BiasAddGradF64(const double* in, double* out, int64_t rows, int64_t channels) {
  BiasAddGrad(in, out, rows, channels);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(BiasAddF32);
HWY_EXPORT(BiasAddF64);
HWY_EXPORT(BiasAddGradF32);
HWY_EXPORT(BiasAddGradF64);
HWY_EXPORT(BiasDescentF32);

// A tensor as [outer, channels, inner]: inner is 1 unless channels are second (NCHW).
struct Channels {
  int64_t outer = 1, channels = 1, inner = 1;
};

StatusOr<Channels> ChannelsOf(const NodeView& node) {
  const Shape& shape = node.inputs[0].shape;
  const bool nchw = node.node.HasAttr("data_format") && node.attr<std::string>("data_format") == "NCHW";
  if (shape.rank() < 2) return InvalidArgument("a bias needs a value of rank 2 or more, not {}", shape.ToString());
  Channels c;
  const int axis = nchw && shape.rank() > 2 ? 1 : shape.rank() - 1;
  for (int i = 0; i < shape.rank(); ++i) (i < axis ? c.outer : i == axis ? c.channels : c.inner) *= shape.dim(i);
  return c;
}

template <typename T>
class BiasAddKernel final : public Kernel {
 public:
  explicit BiasAddKernel(const Channels& channels) : c_(channels) {}
  Status Run(const KernelContext& context) const override {
    const T* in = reinterpret_cast<const T*>(context.inputs[0]);
    const T* bias = reinterpret_cast<const T*>(context.inputs[1]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if (c_.inner == 1) {
      if constexpr (std::is_same_v<T, float>)
        HWY_DYNAMIC_DISPATCH(BiasAddF32)(in, bias, out, c_.outer, c_.channels);
      else
        HWY_DYNAMIC_DISPATCH(BiasAddF64)(in, bias, out, c_.outer, c_.channels);
      return {};
    }
    for (int64_t row = 0; row < c_.outer * c_.channels; ++row, in += c_.inner, out += c_.inner) {
      const T b = bias[row % c_.channels];
      for (int64_t i = 0; i < c_.inner; ++i) out[i] = in[i] + b;
    }
    return {};
  }

 private:
  Channels c_;
};

// A bias's gradient, applied at once (Kernel::FusedGradientDescent).
class DescendingBiasAddGrad final : public Kernel, public PartKernel {
 public:
  explicit DescendingBiasAddGrad(const Channels& channels, bool elsewhere = false)
      : c_(channels), elsewhere_(elsewhere) {}
  Status Run(const KernelContext& context) const override {
    float* const bias = reinterpret_cast<float*>(context.variables[0]);
    Descend(context, elsewhere_ ? reinterpret_cast<const float*>(context.inputs.back()) : bias, bias);
    return absl::OkStatus();
  }
  std::unique_ptr<const Kernel> FromElsewhere() const override {
    return std::make_unique<DescendingBiasAddGrad>(c_, true);
  }
  int64_t part_unit() const override { return c_.channels; }
  void RunPart(const KernelContext& context, int64_t, int64_t, float* to) const override {
    Descend(context, reinterpret_cast<const float*>(context.inputs.back()), to);
  }

 private:
  void Descend(const KernelContext& context, const float* from, float* to) const {
    const float rate = *reinterpret_cast<const float*>(context.inputs[1]);
    HWY_DYNAMIC_DISPATCH(BiasDescentF32)
    (reinterpret_cast<const float*>(context.inputs[0]), from, rate, to, c_.outer, c_.channels);
  }

  Channels c_;
  bool elsewhere_;
};

template <typename T>
class BiasAddGradKernel final : public Kernel {
 public:
  explicit BiasAddGradKernel(const Channels& channels) : c_(channels) {}
  Status Run(const KernelContext& context) const override {
    const T* in = reinterpret_cast<const T*>(context.inputs[0]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if (c_.inner == 1) {
      if constexpr (std::is_same_v<T, float>)
        HWY_DYNAMIC_DISPATCH(BiasAddGradF32)(in, out, c_.outer, c_.channels);
      else
        HWY_DYNAMIC_DISPATCH(BiasAddGradF64)(in, out, c_.outer, c_.channels);
      return {};
    }
    std::fill_n(out, c_.channels, T{0});
    for (int64_t row = 0; row < c_.outer * c_.channels; ++row, in += c_.inner) {
      T sum{0};
      for (int64_t i = 0; i < c_.inner; ++i) sum += in[i];
      out[row % c_.channels] += sum;
    }
    return {};
  }
  std::unique_ptr<const Kernel> FusedGradientDescent() const override {
    if (!std::is_same_v<T, float> || c_.inner != 1) return nullptr;
    return std::make_unique<DescendingBiasAddGrad>(c_);
  }

 private:
  Channels c_;
};

template <typename T>
StatusOr<Prepared> PrepareBiasAdd(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Channels channels, ChannelsOf(node));
  if (node.inputs[1].shape != Shape({channels.channels})) {
    return InvalidArgument("a bias of {} does not fit {} channels", node.inputs[1].shape.ToString(), channels.channels);
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<BiasAddKernel<T>>(channels);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareBiasAddGrad(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Channels channels, ChannelsOf(node));
  Prepared prepared;
  prepared.kernel = std::make_unique<BiasAddGradKernel<T>>(channels);
  prepared.implementation = "hwy";
  return prepared;
}

RIVULET_KERNEL("BiasAdd", Device::kCpu, float, PrepareBiasAdd<float>);
RIVULET_KERNEL("BiasAdd", Device::kCpu, double, PrepareBiasAdd<double>);
RIVULET_KERNEL("BiasAddGrad", Device::kCpu, float, PrepareBiasAddGrad<float>);
RIVULET_KERNEL("BiasAddGrad", Device::kCpu, double, PrepareBiasAddGrad<double>);

}  // namespace
}  // namespace rivulet
#endif
