// MaxPool of integers, and MaxPoolWithArgmax: one element at a time.
#include "engine/kernels/cpu/convolution/pooling_plan.h"
#include "engine/program/kernel.h"

namespace rivulet {
namespace {

// Calls f(result, image's first element, offset of the maximum from it) for each window of each channel; `result` is an
// element index of the output.
template <typename T, typename F>
void ForEachLargest(const PoolPlan& plan, const T* in, F f) {
  if (plan.out_elements() == 0) return;
  const int64_t in_plane = plan.in_height * plan.in_width, out_plane = plan.out_height * plan.out_width;
  const int64_t pixel = plan.nchw ? 1 : plan.channels;
  for (int64_t image = 0; image < plan.batch; ++image) {
    const int64_t first = image * in_plane * plan.channels;
    for (int64_t channel = 0; channel < plan.channels; ++channel) {
      const int64_t at_channel = plan.nchw ? channel * in_plane : channel;
      const int64_t to_channel = image * out_plane * plan.channels + (plan.nchw ? channel * out_plane : channel);
      int64_t window = 0;
      for (const PoolSpan& rows : plan.rows) {
        for (const PoolSpan& columns : plan.columns) {
          int64_t best = -1;
          for (int64_t y = 0; y < rows.count; ++y) {
            const int64_t row = (rows.first + y * plan.step_height) * plan.in_width + columns.first;
            for (int64_t x = 0; x < columns.count; ++x) {
              const int64_t at = at_channel + (row + x * plan.step_width) * pixel;
              const T value = in[first + at];
              if (best < 0 || value > in[first + best] || value != value) best = at;  // NaN wins
            }
          }
          f(to_channel + window++ * pixel, first, best);
        }
      }
    }
  }
}

template <typename T>
class MaxPoolLoops final : public Kernel {
 public:
  explicit MaxPoolLoops(PoolPlan plan) : plan_(std::move(plan)) {}
  Status Run(const KernelContext& context) const override {
    const T* in = reinterpret_cast<const T*>(context.inputs[0]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    ForEachLargest(plan_, in, [&](int64_t to, int64_t image, int64_t at) { out[to] = in[image + at]; });
    return {};
  }

 private:
  PoolPlan plan_;
};

template <typename T, typename Index>
class ArgmaxPool final : public Kernel {
 public:
  ArgmaxPool(PoolPlan plan, bool include_batch) : plan_(std::move(plan)), include_batch_(include_batch) {}
  Status Run(const KernelContext& context) const override {
    const T* in = reinterpret_cast<const T*>(context.inputs[0]);
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    Index* indices = reinterpret_cast<Index*>(context.outputs[1]);
    ForEachLargest(plan_, in, [&](int64_t to, int64_t image, int64_t at) {
      out[to] = in[image + at];
      indices[to] = static_cast<Index>(at + (include_batch_ ? image : 0));
    });
    return {};
  }

 private:
  PoolPlan plan_;
  bool include_batch_;
};

template <typename T>
StatusOr<Prepared> PrepareMaxPool(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(PoolPlan plan, MakePoolPlan(node, node.inputs[0].shape, node.outputs[0].shape));
  Prepared prepared;
  prepared.kernel = std::make_unique<MaxPoolLoops<T>>(std::move(plan));
  prepared.implementation = "loops";
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareArgmax(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(PoolPlan plan, MakePoolPlan(node, node.inputs[0].shape, node.outputs[0].shape));
  const bool include_batch = node.attr<bool>("include_batch_in_index");
  Prepared prepared;
  prepared.implementation = "loops";
  if (node.attr<DType>("Targmax") == DType::kInt64) {
    prepared.kernel = std::make_unique<ArgmaxPool<T, int64_t>>(std::move(plan), include_batch);
    return prepared;
  }
  if (plan.in_elements() > std::numeric_limits<int32_t>::max())
    return InvalidArgument("positions in {} need Targmax = int64", node.inputs[0].shape.ToString());
  prepared.kernel = std::make_unique<ArgmaxPool<T, int32_t>>(std::move(plan), include_batch);
  return prepared;
}

RIVULET_KERNEL("MaxPool", Device::kCpu, int8_t, PrepareMaxPool<int8_t>);
RIVULET_KERNEL("MaxPool", Device::kCpu, uint8_t, PrepareMaxPool<uint8_t>);
RIVULET_KERNEL("MaxPool", Device::kCpu, int16_t, PrepareMaxPool<int16_t>);
RIVULET_KERNEL("MaxPool", Device::kCpu, uint16_t, PrepareMaxPool<uint16_t>);
RIVULET_KERNEL("MaxPool", Device::kCpu, int32_t, PrepareMaxPool<int32_t>);
RIVULET_KERNEL("MaxPool", Device::kCpu, int64_t, PrepareMaxPool<int64_t>);
RIVULET_KERNEL("MaxPoolWithArgmax", Device::kCpu, float, PrepareArgmax<float>);
RIVULET_KERNEL("MaxPoolWithArgmax", Device::kCpu, double, PrepareArgmax<double>);

}  // namespace
}  // namespace rivulet
