// The simple recurrent layer over sequences and its backward pass.
#include "engine/kernels/cpu/product/step_product.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {
namespace {

template <typename T>
class SimpleRnnKernel final : public Kernel {
 public:
  SimpleRnnKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[0].shape, 1)),
        lengths_(node.inputs[3], 3),
        activation_(node.attr<std::string>("activation"), node.attr<float>("clip")),
        has_h_(IsGiven(node, 2)),
        factor_(portable, /*turned=*/false, walk_.units, walk_.units, walk_.units, walk_.batch, walk_.steps),
        kernel_(scratch.Add(factor_.elements())),
        product_(scratch.Add(walk_.batch * walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch;
    const T* projection = InputOf<T>(context, 0);
    const auto kernel = factor_.LayOut(InputOf<T>(context, 1), As<T>(context.scratch) + kernel_);
    T *output = OutputOf<T>(context, 0), *h = OutputOf<T>(context, 1);
    T* product = As<T>(context.scratch) + product_;
    CopyOrZero(OptionalInput<T>(context, 2, has_h_), h, batch * units);
    for (int64_t s = 0; s < walk_.steps; ++s) {
      const int64_t t = walk_.Step(s);
      factor_.Times(h, units, kernel, product, batch);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b) * units;
        T *out = output + row, *q = product + b * units;
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(out, units, T{0});
          continue;
        }
        for (int64_t i = 0; i < units; ++i) q[i] += projection[row + i];
        activation_.Apply(q, units);
        std::copy_n(q, units, out);
        std::copy_n(q, units, h + b * units);
      }
    }
    return absl::OkStatus();
  }

 private:
  SequenceWalk walk_;
  SequenceLengths lengths_;
  Gate<T> activation_;
  bool has_h_;
  StepFactor<T> factor_;
  size_t kernel_, product_;
};

template <typename T>
class SimpleRnnGradKernel final : public Kernel {
 public:
  SimpleRnnGradKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[3].shape, 1)),
        lengths_(node.inputs[2], 2),
        activation_(node.attr<std::string>("activation"), node.attr<float>("clip")),
        has_h_(IsGiven(node, 1)),
        factor_(portable, /*turned=*/true, walk_.units, walk_.units, walk_.units, walk_.batch, walk_.steps),
        transposed_(scratch.Add(factor_.elements())),
        product_(scratch.Add(walk_.batch * walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch;
    const T *h0 = OptionalInput<T>(context, 1, has_h_), *output = InputOf<T>(context, 3);
    const T* output_grad = InputOf<T>(context, 4);
    T *grads = OutputOf<T>(context, 0), *previous = OutputOf<T>(context, 1), *h_grad = OutputOf<T>(context, 2);
    T* product = As<T>(context.scratch) + product_;
    const auto transposed = factor_.LayOut(InputOf<T>(context, 0), As<T>(context.scratch) + transposed_);
    std::copy_n(InputOf<T>(context, 5), batch * units, h_grad);
    for (int64_t s = walk_.steps - 1; s >= 0; --s) {
      const int64_t t = walk_.Step(s);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b) * units;
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(grads + row, units, T{0});
          std::fill_n(previous + row, units, T{0});
          continue;
        }
        CopyOrZero(StateBefore(context, walk_, lengths_, t, b, output, h0), previous + row, units);
        for (int64_t i = 0; i < units; ++i) grads[row + i] = h_grad[b * units + i] + output_grad[row + i];
        activation_.TimesDerivative(output + row, grads + row, units);
      }
      factor_.Times(grads + walk_.Row(t, 0) * units, walk_.row_stride() * units, transposed, product, batch);
      for (int64_t b = 0; b < batch; ++b)
        if (lengths_.Covers(context, t, b)) std::copy_n(product + b * units, units, h_grad + b * units);
    }
    return absl::OkStatus();
  }

 private:
  SequenceWalk walk_;
  SequenceLengths lengths_;
  Gate<T> activation_;
  bool has_h_;
  StepFactor<T> factor_;
  size_t transposed_, product_;
};

template <typename T, template <typename> class K>
StatusOr<Prepared> PrepareSimpleRnn(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<K<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  const Shape& rows = node.outputs[0].shape;
  prepared.flops = 2.0 * static_cast<double>(rows.elements()) * static_cast<double>(rows.dim(2));
  return prepared;
}

RIVULET_KERNEL("SimpleRNN", Device::kCpu, float, (PrepareSimpleRnn<float, SimpleRnnKernel>));
RIVULET_KERNEL("SimpleRNN", Device::kCpu, double, (PrepareSimpleRnn<double, SimpleRnnKernel>));
RIVULET_KERNEL("SimpleRNNGrad", Device::kCpu, float, (PrepareSimpleRnn<float, SimpleRnnGradKernel>));
RIVULET_KERNEL("SimpleRNNGrad", Device::kCpu, double, (PrepareSimpleRnn<double, SimpleRnnGradKernel>));

}  // namespace
}  // namespace rivulet
