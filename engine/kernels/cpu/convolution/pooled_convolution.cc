#include "engine/kernels/cpu/convolution/pooled_convolution.h"

#include <utility>

#include "engine/kernels/cpu/convolution/pooling_plan.h"
#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

PoolPlan PoolOfTwoByTwo(const Window& window, int64_t images) {
  PoolPlan plan;
  plan.batch = images;
  plan.channels = window.out_channels;
  plan.in_height = window.out_height;
  plan.in_width = window.out_width;
  plan.out_height = window.out_height / 2;
  plan.out_width = window.out_width / 2;
  for (const auto& [spans, count] :
       {std::pair(&plan.rows, plan.out_height), std::pair(&plan.columns, plan.out_width)}) {
    for (int64_t i = 0; i < count; ++i) spans->push_back({.first = 2 * i, .count = 2, .counted = 2});
  }
  return plan;
}

class PooledConvolution final : public Kernel {
 public:
  PooledConvolution(Prepared convolution, const Window& window)
      : convolution_(std::move(convolution.kernel)), scratch_(RoundUp64(convolution.scratch_bytes)) {
    const auto* const by_image = dynamic_cast<const ImageByImage*>(convolution_.get());
    if (std::unique_ptr<const Kernel> one = by_image == nullptr ? nullptr : by_image->OfOneImage()) {
      convolution_ = std::move(one);
      rounds_ = window.batch;
    }
    const int64_t images = window.batch / rounds_;
    const PoolPlan plan = PoolOfTwoByTwo(window, images);
    in_bytes_ = window.in_elements() / rounds_ * kBytes;
    between_bytes_ = plan.in_elements() * kBytes;
    out_bytes_ = plan.out_elements() * kBytes;
    pool_ = MaxPoolOverPixels(plan).kernel;
  }

  size_t scratch_bytes() const { return scratch_ + static_cast<size_t>(between_bytes_); }

  Status Run(const KernelContext& context) const override {
    std::byte* inputs[3];
    std::copy(context.inputs.begin(), context.inputs.end(), inputs);
    std::byte* const between = context.scratch + scratch_;
    std::byte* output = context.outputs[0];
    KernelContext convolution = context, pool = context;
    convolution.inputs = {inputs, context.inputs.size()};
    convolution.outputs = {&between, 1};
    pool.inputs = {&between, 1};
    pool.outputs = {&output, 1};
    pool.state = nullptr;
    for (int64_t round = 0; round < rounds_; ++round, inputs[0] += in_bytes_, output += out_bytes_) {
      RIVULET_RETURN_IF_ERROR(convolution_->Run(convolution));
      RIVULET_RETURN_IF_ERROR(pool_->Run(pool));
    }
    return absl::OkStatus();
  }
  std::unique_ptr<KernelState> NewState() const override { return convolution_->NewState(); }

 private:
  static constexpr int64_t kBytes = sizeof(float);
  std::unique_ptr<const Kernel> convolution_, pool_;
  size_t scratch_;  // of the convolution; its output follows
  int64_t rounds_ = 1;
  int64_t in_bytes_, between_bytes_, out_bytes_;  // per round
};

}  // namespace

Prepared WithMaxPool(Prepared convolution, const Window& window) {
  Prepared prepared;
  prepared.implementation = convolution.implementation + ", pool";
  prepared.flops = convolution.flops;
  auto kernel = std::make_unique<PooledConvolution>(std::move(convolution), window);
  prepared.scratch_bytes = kernel->scratch_bytes();
  prepared.kernel = std::move(kernel);
  return prepared;
}

}  // namespace rivulet
