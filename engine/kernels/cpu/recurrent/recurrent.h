// Shared parts of the kernels of recurrent layers: layout and lengths of sequences in memory, and activations of gates.
#pragma once

#include <cmath>
#include <string>

#include "engine/base/math.h"
#include "engine/kernels/cpu/elementwise/unary_transcendental.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {

// The traversal of `steps` of `batch` sequences, each `units` wide.
struct SequenceWalk {
  int64_t steps = 0, batch = 0, units = 0;
  bool time_major = false, reverse = false;

  // For a kernel whose rows (input or output) are `rows`, `multiple` · units wide.
  static SequenceWalk Of(const NodeView& node, const Shape& rows, int64_t multiple) {
    SequenceWalk walk;
    walk.time_major = node.attr<bool>("time_major");
    walk.reverse = node.attr<bool>("reverse");
    walk.steps = rows.dim(walk.time_major ? 0 : 1);
    walk.batch = rows.dim(walk.time_major ? 1 : 0);
    walk.units = rows.dim(2) / multiple;
    return walk;
  }

  int64_t Row(int64_t t, int64_t b) const { return time_major ? t * batch + b : b * steps + t; }
  int64_t row_stride() const { return time_major ? 1 : steps; }  // from a sequence's row of a step to the next one's
  // The step at position `s` of the traversal, and the one before it (-1 or `steps`: none).
  int64_t Step(int64_t s) const { return reverse ? steps - 1 - s : s; }
  int64_t Before(int64_t t) const { return reverse ? t + 1 : t - 1; }
  int64_t After(int64_t t) const { return reverse ? t - 1 : t + 1; }
  // Distance in rows from a sequence's row of step `t` to that of step `to`; 0 if there is no such step.
  int64_t RowsTo(int64_t t, int64_t to) const { return to < 0 || to >= steps ? 0 : Row(to, 0) - Row(t, 0); }
};

// Lengths of the sequences of a batch, int32, int64 or omitted.
class SequenceLengths {
 public:
  SequenceLengths(const TensorSpec& spec, size_t input)
      : dtype_(spec.dtype), given_(spec.shape.elements() > 0), input_(input) {}

  // INVALID_ARGUMENT names the first length outside 0 .. steps.
  Status Check(const KernelContext& context, const SequenceWalk& walk) const {
    if (!given_) return absl::OkStatus();
    for (int64_t b = 0; b < walk.batch; ++b) {
      const int64_t length = At(context, b);
      if (length < 0 || length > walk.steps)
        return InvalidArgument("sequence_lengths[{}] is {}, but a sequence has 0 to {} steps", b, length, walk.steps);
    }
    return absl::OkStatus();
  }
  bool given() const { return given_; }
  bool Covers(const KernelContext& context, int64_t t, int64_t b) const { return !given_ || t < At(context, b); }

 private:
  int64_t At(const KernelContext& context, int64_t b) const {
    const std::byte* data = context.inputs[input_];
    return dtype_ == DType::kInt64 ? reinterpret_cast<const int64_t*>(data)[b]
                                   : reinterpret_cast<const int32_t*>(data)[b];
  }
  DType dtype_;
  bool given_;
  size_t input_;
};

enum class CellActivation { kTanh, kSigmoid, kHardSigmoid, kRelu, kSoftsign, kSoftplus, kElu, kLeakyRelu, kLinear };

inline CellActivation CellActivationOf(std::string_view name) {
  if (name == "sigmoid") return CellActivation::kSigmoid;
  if (name == "hard_sigmoid") return CellActivation::kHardSigmoid;
  if (name == "relu") return CellActivation::kRelu;
  if (name == "softsign") return CellActivation::kSoftsign;
  if (name == "softplus") return CellActivation::kSoftplus;
  if (name == "elu") return CellActivation::kElu;
  if (name == "leaky_relu") return CellActivation::kLeakyRelu;
  if (name == "linear") return CellActivation::kLinear;
  return CellActivation::kTanh;  // the op allows no other names
}

// An activation, with its input limited to ±clip if clip > 0. All activations are monotonic, and their derivatives
// follow from their outputs, so a backward pass needs only outputs.
template <typename T>
class Gate {
 public:
  Gate(std::string_view name, float clip) : kind_(CellActivationOf(name)), clip_(static_cast<T>(clip)) {
    if (clip_ > 0) {
      low_ = -clip_;
      high_ = clip_;
      Activate(&low_, 1);
      Activate(&high_, 1);
    }
  }

  // Returns true if it has this kind, without a clip.
  bool IsPlain(CellActivation kind) const { return kind_ == kind && !(clip_ > 0); }

  void Apply(T* values, int64_t count) const {
    if (clip_ > 0) {
      for (int64_t i = 0; i < count; ++i) {  // NaN stays
        values[i] = values[i] > clip_ ? clip_ : values[i];
        values[i] = values[i] < -clip_ ? -clip_ : values[i];
      }
    }
    Activate(values, count);
  }

  // gradient[i] *= the derivative at the input with the output y[i].
  void TimesDerivative(const T* y, T* gradient, int64_t count) const {
    const T one = 1;
    switch (kind_) {
      case CellActivation::kTanh:
        for (int64_t i = 0; i < count; ++i) gradient[i] *= one - y[i] * y[i];
        break;
      case CellActivation::kSigmoid:
        for (int64_t i = 0; i < count; ++i) gradient[i] *= y[i] * (one - y[i]);
        break;
      case CellActivation::kHardSigmoid:
        for (int64_t i = 0; i < count; ++i)
          gradient[i] = y[i] > 0 && y[i] < one ? gradient[i] * static_cast<T>(0.2) : T{0};
        break;
      case CellActivation::kRelu:
        for (int64_t i = 0; i < count; ++i) gradient[i] = y[i] > 0 ? gradient[i] : T{0};
        break;
      case CellActivation::kSoftsign:
        for (int64_t i = 0; i < count; ++i) {
          const T rest = one - std::abs(y[i]);
          gradient[i] *= rest * rest;
        }
        break;
      case CellActivation::kSoftplus:  // sigmoid(x) = 1 - e^-softplus(x)
        for (int64_t i = 0; i < count; ++i) gradient[i] *= static_cast<T>(-math::Expm1(-static_cast<double>(y[i])));
        break;
      case CellActivation::kElu:
        for (int64_t i = 0; i < count; ++i) gradient[i] *= y[i] > 0 ? one : y[i] + one;
        break;
      case CellActivation::kLeakyRelu:
        for (int64_t i = 0; i < count; ++i) gradient[i] *= y[i] > 0 ? one : kLeak;
        break;
      case CellActivation::kLinear:
        break;
    }
    if (clip_ > 0)
      for (int64_t i = 0; i < count; ++i) gradient[i] = y[i] >= high_ || y[i] <= low_ ? T{0} : gradient[i];
  }

 private:
  static constexpr T kLeak = static_cast<T>(0.01);

  void Activate(T* v, int64_t count) const {
    switch (kind_) {
      case CellActivation::kTanh:
        if constexpr (std::is_same_v<T, float>) {
          TanhOfRow(v, static_cast<size_t>(count));
        } else {
          for (int64_t i = 0; i < count; ++i) v[i] = math::Tanh(v[i]);
        }
        break;
      case CellActivation::kSigmoid:
        if constexpr (std::is_same_v<T, float>) {
          SigmoidOfRow(v, static_cast<size_t>(count));
        } else {
          for (int64_t i = 0; i < count; ++i) v[i] = math::Sigmoid(v[i]);
        }
        break;
      case CellActivation::kHardSigmoid:
        for (int64_t i = 0; i < count; ++i) {
          const T line = v[i] * static_cast<T>(0.2) + static_cast<T>(0.5);
          v[i] = line < 0 ? T{0} : line > 1 ? T{1} : line;
        }
        break;
      case CellActivation::kRelu:
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] < 0 ? T{0} : v[i];
        break;
      case CellActivation::kSoftsign:
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] / (1 + std::abs(v[i]));
        break;
      case CellActivation::kSoftplus:
        for (int64_t i = 0; i < count; ++i) v[i] = static_cast<T>(math::Softplus(static_cast<double>(v[i])));
        break;
      case CellActivation::kElu:
        for (int64_t i = 0; i < count; ++i)
          v[i] = v[i] < 0 ? static_cast<T>(math::Expm1(static_cast<double>(v[i]))) : v[i];
        break;
      case CellActivation::kLeakyRelu:
        for (int64_t i = 0; i < count; ++i) v[i] = v[i] < 0 ? v[i] * kLeak : v[i];
        break;
      case CellActivation::kLinear:
        break;
    }
  }

  CellActivation kind_;
  T clip_, low_ = 0, high_ = 0;
};

// Divides a kernel's scratch into consecutive parts.
template <typename T>
class ScratchPlan {
 public:
  size_t Add(int64_t elements) {
    const size_t at = elements_;
    elements_ += static_cast<size_t>(elements + 15) / 16 * 16;
    return at;
  }
  size_t bytes() const { return elements_ * sizeof(T); }

 private:
  size_t elements_ = 0;
};

// An optional input: null if it is omitted.
template <typename T>
const T* OptionalInput(const KernelContext& context, size_t i, bool given) {
  return given ? InputOf<T>(context, i) : nullptr;
}
inline bool IsGiven(const NodeView& node, size_t i) { return node.inputs[i].shape.elements() > 0; }

// The state with which sequence `b` began step `t`: `output` has those of all steps, `h0` that before the first; null,
// also for `h0`, means zero.
template <typename T>
const T* StateBefore(const KernelContext& context, const SequenceWalk& walk, const SequenceLengths& lengths, int64_t t,
                     int64_t b, const T* output, const T* h0) {
  const int64_t before = walk.Before(t);
  if (before >= 0 && before < walk.steps && lengths.Covers(context, before, b))
    return output + walk.Row(before, b) * walk.units;
  return h0 == nullptr ? nullptr : h0 + b * walk.units;
}

template <typename T>
void CopyOrZero(const T* from, T* to, int64_t count) {
  if (from != nullptr) {
    std::copy_n(from, count, to);
  } else {
    std::fill_n(to, count, T{0});
  }
}

}  // namespace rivulet
