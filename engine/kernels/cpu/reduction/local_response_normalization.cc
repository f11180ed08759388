// LRN and its gradient, computed in double and in one order on every machine.
#include <algorithm>
#include <cmath>

#include "engine/base/math.h"
#include "engine/program/kernel.h"

namespace rivulet {
namespace {

struct Lrn {
  int64_t outer = 1, channels = 1, inner = 1;  // the image as [outer, channels, inner]
  int64_t radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;

  int64_t first(int64_t channel) const { return std::max<int64_t>(0, channel - radius); }
  int64_t last(int64_t channel) const { return std::min(channels - 1, channel + radius); }
  // bias + alpha · Σ x² around each channel of the column at `x`, whose elements are `inner` apart.
  template <typename T>
  void Norms(const T* x, double* norms) const {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = first(c); i <= last(c); ++i) {
        const double value = static_cast<double>(x[i * inner]);
        sum += value * value;
      }
      norms[c] = bias + alpha * sum;
    }
  }
  // norm^-beta
  double Scale(double norm) const {
    if (beta == 0.5) return 1 / std::sqrt(norm);
    if (beta == 1) return 1 / norm;
    return math::Exp(-beta * math::Log(norm));
  }
};

template <typename T>
class LrnKernel final : public Kernel {
 public:
  explicit LrnKernel(const Lrn& lrn) : lrn_(lrn) {}
  Status Run(const KernelContext& context) const override {
    double* norms = reinterpret_cast<double*>(context.scratch);
    for (int64_t outer = 0; outer < lrn_.outer; ++outer) {
      for (int64_t inner = 0; inner < lrn_.inner; ++inner) {
        const int64_t at = outer * lrn_.channels * lrn_.inner + inner;
        const T* x = reinterpret_cast<const T*>(context.inputs[0]) + at;
        T* y = reinterpret_cast<T*>(context.outputs[0]) + at;
        lrn_.Norms(x, norms);
        for (int64_t c = 0; c < lrn_.channels; ++c)
          y[c * lrn_.inner] = static_cast<T>(static_cast<double>(x[c * lrn_.inner]) * lrn_.Scale(norms[c]));
      }
    }
    return {};
  }

 private:
  Lrn lrn_;
};

template <typename T>
class LrnGradKernel final : public Kernel {
 public:
  explicit LrnGradKernel(const Lrn& lrn) : lrn_(lrn) {}
  // dx_j = g_j n_j^-beta - 2 alpha beta x_j Σ_i g_i y_i / n_i over the channels i around j. y is recomputed, because a
  // float's rounded y would lose digits.
  Status Run(const KernelContext& context) const override {
    double* norms = reinterpret_cast<double*>(context.scratch);
    double* shares = norms + lrn_.channels;
    const int64_t step = lrn_.inner;
    for (int64_t outer = 0; outer < lrn_.outer; ++outer) {
      for (int64_t inner = 0; inner < lrn_.inner; ++inner) {
        const int64_t at = outer * lrn_.channels * lrn_.inner + inner;
        const T* g = reinterpret_cast<const T*>(context.inputs[0]) + at;
        const T* x = reinterpret_cast<const T*>(context.inputs[1]) + at;
        T* dx = reinterpret_cast<T*>(context.outputs[0]) + at;
        lrn_.Norms(x, norms);
        for (int64_t c = 0; c < lrn_.channels; ++c) {
          const double scale = lrn_.Scale(norms[c]);
          shares[c] = static_cast<double>(g[c * step]) * static_cast<double>(x[c * step]) * scale / norms[c];
          norms[c] = scale;
        }
        for (int64_t c = 0; c < lrn_.channels; ++c) {
          double sum = 0;
          for (int64_t i = lrn_.first(c); i <= lrn_.last(c); ++i) sum += shares[i];
          dx[c * step] = static_cast<T>(static_cast<double>(g[c * step]) * norms[c] -
                                        2 * lrn_.alpha * lrn_.beta * static_cast<double>(x[c * step]) * sum);
        }
      }
    }
    return {};
  }

 private:
  Lrn lrn_;
};

StatusOr<Lrn> LrnOf(const NodeView& node) {
  const Shape& shape = node.inputs[0].shape;
  if (shape.rank() != 4) return InvalidArgument("images have 4 dimensions, not {}", shape.ToString());
  const std::string* format = node.node.FindAttr<std::string>("_data_format");
  const bool nchw = format != nullptr && *format == "NCHW";
  Lrn lrn;
  lrn.channels = shape.dim(nchw ? 1 : 3);
  lrn.inner = nchw ? shape.dim(2) * shape.dim(3) : 1;
  lrn.outer = nchw ? shape.dim(0) : shape.dim(0) * shape.dim(1) * shape.dim(2);
  lrn.radius = std::min(node.attr<int64_t>("depth_radius"), lrn.channels);
  lrn.bias = static_cast<double>(node.attr<float>("bias"));
  lrn.alpha = static_cast<double>(node.attr<float>("alpha"));
  lrn.beta = static_cast<double>(node.attr<float>("beta"));
  return lrn;
}

template <typename T, template <typename> class MadeKernel>
StatusOr<Prepared> PrepareLrn(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Lrn lrn, LrnOf(node));
  for (const TensorSpec& input : node.inputs)
    if (input.shape != node.outputs[0].shape)
      return InvalidArgument("inputs of {} and {} differ in shape", input.shape.ToString(),
                             node.outputs[0].shape.ToString());
  Prepared prepared;
  prepared.kernel = std::make_unique<MadeKernel<T>>(lrn);
  prepared.scratch_bytes = 2 * static_cast<size_t>(lrn.channels) * sizeof(double);
  prepared.implementation = "loops";
  return prepared;
}

RIVULET_KERNEL("LRN", Device::kCpu, float, (PrepareLrn<float, LrnKernel>));
RIVULET_KERNEL("LRN", Device::kCpu, double, (PrepareLrn<double, LrnKernel>));
RIVULET_KERNEL("LRNGrad", Device::kCpu, float, (PrepareLrn<float, LrnGradKernel>));
RIVULET_KERNEL("LRNGrad", Device::kCpu, double, (PrepareLrn<double, LrnGradKernel>));

}  // namespace
}  // namespace rivulet
