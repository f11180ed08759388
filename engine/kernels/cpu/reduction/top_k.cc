// The k largest elements of each row: a heap of the best indices so far with the worst on top, ordered by value and
// then by index, so that the result depends on the values alone.
#include <algorithm>

#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
class TopKKernel final : public Kernel {
 public:
  TopKKernel(int64_t rows, int64_t size, int64_t k, bool wide) : rows_(rows), size_(size), k_(k), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    T* values = OutputOf<T>(context, 0);
    int64_t* order = As<int64_t>(context.scratch);
    for (int64_t row = 0; row < rows_; ++row, in += size_, values += k_) {
      const auto before = [in](int64_t a, int64_t b) {
        const T x = in[a], y = in[b];
        const bool x_nan = x != x, y_nan = y != y;
        if (x_nan != y_nan) return x_nan;
        if (!x_nan && x != y) return x > y;
        return a < b;
      };
      for (int64_t i = 0; i < k_; ++i) order[i] = i;
      std::make_heap(order, order + k_, before);
      for (int64_t i = k_; i < size_ && k_ > 0; ++i) {
        if (in[i] <= in[order[0]] || !before(i, order[0])) continue;  // most are no better than the worst kept one
        std::pop_heap(order, order + k_, before);
        order[k_ - 1] = i;
        std::push_heap(order, order + k_, before);
      }
      std::sort_heap(order, order + k_, before);
      for (int64_t i = 0; i < k_; ++i) {
        values[i] = in[order[i]];
        if (wide_)
          OutputOf<int64_t>(context, 1)[row * k_ + i] = order[i];
        else
          OutputOf<int32_t>(context, 1)[row * k_ + i] = static_cast<int32_t>(order[i]);
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t rows_, size_, k_;
  bool wide_;
};

template <typename T>
StatusOr<Prepared> PrepareTopK(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t k, ConstantScalar(node, 1, "k"));
  const Shape& input = node.inputs[0].shape;
  const int64_t size = input.dim(input.rank() - 1);
  const bool wide = node.outputs[1].dtype == DType::kInt64;
  if (!wide && size > INT32_MAX)
    return InvalidArgument("an axis of {} elements has positions beyond int32; ask for index_type = int64", size);
  Prepared prepared;
  prepared.kernel = std::make_unique<TopKKernel<T>>(size == 0 ? 0 : input.elements() / size, size, k, wide);
  prepared.scratch_bytes = static_cast<size_t>(k) * sizeof(int64_t);
  prepared.implementation = "heap";
  return prepared;
}

RIVULET_KERNEL("TopKV2", Device::kCpu, float, PrepareTopK<float>);
RIVULET_KERNEL("TopKV2", Device::kCpu, double, PrepareTopK<double>);
RIVULET_KERNEL("TopKV2", Device::kCpu, int8_t, PrepareTopK<int8_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, int16_t, PrepareTopK<int16_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, int32_t, PrepareTopK<int32_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, int64_t, PrepareTopK<int64_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, uint8_t, PrepareTopK<uint8_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, uint16_t, PrepareTopK<uint16_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, uint32_t, PrepareTopK<uint32_t>);
RIVULET_KERNEL("TopKV2", Device::kCpu, uint64_t, PrepareTopK<uint64_t>);

}  // namespace
}  // namespace rivulet
