// Random integers, draws from categories, shuffles. Each draw uses 64 bits, so that biases from range and rounding are
// below a probability of 2^-32.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/math.h"
#include "engine/kernels/cpu/elementwise/random_blocks.h"
#include "engine/kernels/cpu/strided/element_size.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

// A number in [0, bound), as the high half of a product.
uint64_t Below(uint64_t word, uint64_t bound) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(word) * bound >> 64);
}

template <typename T>
class UniformIntKernel final : public Kernel {
 public:
  UniformIntKernel(uint32_t op, int64_t count) : op_(op), count_(count) {}
  Status Run(const KernelContext& context) const override {
    const T low = *InputOf<T>(context, 1), high = *InputOf<T>(context, 2);
    if (low >= high) return InvalidArgument("minval {} must be below maxval {}", low, high);
    RIVULET_ASSIGN_OR_RETURN(const RandomBlocks blocks, RandomBlocks::OfRun(context, op_));
    using U = std::make_unsigned_t<T>;
    const U span = static_cast<U>(static_cast<U>(high) - static_cast<U>(low));
    T* out = OutputOf<T>(context, 0);
    for (int64_t i = 0; i < count_; ++i)
      out[i] =
          static_cast<T>(static_cast<U>(low) + static_cast<U>(Below(blocks.Word64(static_cast<uint64_t>(i)), span)));
    return absl::OkStatus();
  }

 private:
  uint32_t op_;
  int64_t count_;
};

StatusOr<Prepared> PrepareUniformInt(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  const auto op = static_cast<uint32_t>(node.op_index);
  Prepared prepared;
  if (node.outputs[0].dtype == DType::kInt64)
    prepared.kernel = std::make_unique<UniformIntKernel<int64_t>>(op, count);
  else
    prepared.kernel = std::make_unique<UniformIntKernel<int32_t>>(op, count);
  prepared.implementation = "philox";
  return prepared;
}

// logits [rows, classes]; each sample is the position of a uniform number among the cumulative probabilities.
template <typename T>
class MultinomialKernel final : public Kernel {
 public:
  MultinomialKernel(uint32_t op, int64_t rows, int64_t classes, int64_t samples, bool wide)
      : op_(op), rows_(rows), classes_(classes), samples_(samples), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(const RandomBlocks blocks, RandomBlocks::OfRun(context, op_));
    const T* logits = InputOf<T>(context, 0);
    double* cumulative = As<double>(context.scratch);
    for (int64_t row = 0; row < rows_ && samples_ > 0; ++row, logits += classes_) {
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t c = 0; c < classes_; ++c) largest = std::max(largest, static_cast<double>(logits[c]));
      for (int64_t c = 0; c < classes_; ++c) {
        const double difference = static_cast<double>(logits[c]) - largest;
        total += difference < -700 ? 0 : math::Exp(difference);  // NaN is kept
        cumulative[c] = total;
      }
      if (!(total > 0) || !std::isfinite(total))
        return InvalidArgument("row {} of the logits holds no probabilities: NaN, infinite, or all -infinite", row);
      for (int64_t i = 0; i < samples_; ++i) {
        const uint64_t word = blocks.Word64(static_cast<uint64_t>(row * samples_ + i));
        const double at = static_cast<double>(word >> 11) * 0x1p-53 * total;
        int64_t choice = std::upper_bound(cumulative, cumulative + classes_, at) - cumulative;
        if (choice == classes_)  // rounded up to the end: the last class with a positive probability
          choice = std::lower_bound(cumulative, cumulative + classes_, total) - cumulative;
        if (wide_)
          OutputOf<int64_t>(context, 0)[row * samples_ + i] = choice;
        else
          OutputOf<int32_t>(context, 0)[row * samples_ + i] = static_cast<int32_t>(choice);
      }
    }
    return absl::OkStatus();
  }

 private:
  uint32_t op_;
  int64_t rows_, classes_, samples_;
  bool wide_;
};

template <typename T>
StatusOr<Prepared> PrepareMultinomial(const NodeView& node, const KernelPolicy&) {
  const Shape &logits = node.inputs[0].shape, &output = node.outputs[0].shape;
  Prepared prepared;
  prepared.kernel =
      std::make_unique<MultinomialKernel<T>>(static_cast<uint32_t>(node.op_index), logits.dim(0), logits.dim(1),
                                             output.dim(1), node.outputs[0].dtype == DType::kInt64);
  prepared.scratch_bytes = static_cast<size_t>(logits.dim(1)) * sizeof(double);
  prepared.implementation = "philox";
  return prepared;
}

// Fisher–Yates shuffle of rows.
class ShuffleKernel final : public Kernel {
 public:
  ShuffleKernel(uint32_t op, int64_t rows, size_t row_bytes) : op_(op), rows_(rows), row_bytes_(row_bytes) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(const RandomBlocks blocks, RandomBlocks::OfRun(context, op_));
    int64_t* order = As<int64_t>(context.scratch);
    for (int64_t i = 0; i < rows_; ++i) order[i] = i;
    for (int64_t i = rows_ - 1; i > 0; --i) {
      const uint64_t j = Below(blocks.Word64(static_cast<uint64_t>(i)), static_cast<uint64_t>(i) + 1);
      std::swap(order[i], order[j]);
    }
    for (int64_t i = 0; i < rows_ && row_bytes_ > 0; ++i)
      std::memcpy(context.outputs[0] + static_cast<size_t>(i) * row_bytes_,
                  context.inputs[0] + static_cast<size_t>(order[i]) * row_bytes_, row_bytes_);
    return absl::OkStatus();
  }

 private:
  uint32_t op_;
  int64_t rows_;
  size_t row_bytes_;
};

StatusOr<Prepared> PrepareShuffle(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t rows = shape.rank() == 0 ? 1 : shape.dim(0);
  const size_t bytes = static_cast<size_t>(shape.elements()) * SizeOf(node.inputs[0].dtype);
  Prepared prepared;
  prepared.kernel = std::make_unique<ShuffleKernel>(static_cast<uint32_t>(node.op_index), rows,
                                                    rows == 0 ? 0 : bytes / static_cast<size_t>(rows));
  prepared.scratch_bytes = static_cast<size_t>(rows) * sizeof(int64_t);
  prepared.implementation = "philox";
  return prepared;
}

RIVULET_KERNEL("RandomUniformInt", Device::kCpu, void, PrepareUniformInt);
RIVULET_KERNEL("Multinomial", Device::kCpu, float, PrepareMultinomial<float>);
RIVULET_KERNEL("Multinomial", Device::kCpu, double, PrepareMultinomial<double>);
RIVULET_KERNEL_OF_EVERY_SIZE("RandomShuffle", PrepareShuffle);

}  // namespace
}  // namespace rivulet
