// Random numbers from Philox4x32-10. Element i of a float tensor uses word i of the stream, of a double tensor words 2i
// and 2i + 1; a normal number is the quantile of a uniform one. So each element is a function of its index alone.
#include <algorithm>

#include "engine/base/math.h"
#include "engine/kernels/cpu/elementwise/philox_uniform.h"
#include "engine/kernels/cpu/elementwise/random_blocks.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

enum class Distribution { kUniform, kNormal, kTruncatedNormal };

// The probability of values below -2 deviations.
constexpr double kTail = 0.022750131948179207;

// Uniform in (0, 1), in the middle of its cell, so that both ends are equally far.
template <typename T>
double OpenUniform(const uint32_t* words) {
  if constexpr (std::is_same_v<T, float>)
    return (static_cast<double>(words[0]) + 0.5) * 0x1p-32;
  else
    return (static_cast<double>((uint64_t{words[1]} << 32 | words[0]) >> 12) + 0.5) * 0x1p-52;
}

template <typename T, Distribution kDistribution>
T Draw(const uint32_t* words) {
  if constexpr (kDistribution == Distribution::kUniform) {
    if constexpr (std::is_same_v<T, float>)
      return UniformFloat(words[0]);
    else
      return static_cast<double>((uint64_t{words[1]} << 32 | words[0]) >> 11) * 0x1p-53;
  } else if constexpr (kDistribution == Distribution::kNormal) {
    return static_cast<T>(math::NormalQuantile(OpenUniform<T>(words)));
  } else {
    // Conditional on values within two deviations.
    return static_cast<T>(math::NormalQuantile(kTail + OpenUniform<T>(words) * (1.0 - 2.0 * kTail)));
  }
}

template <typename T, Distribution kDistribution>
void Fill(T* out, int64_t count, const RandomBlocks& blocks) {
  constexpr int64_t kWords = sizeof(T) / 4, kPerBlock = 4 / kWords;
  int64_t begin = 0;
  if constexpr (std::is_same_v<T, float> && kDistribution == Distribution::kUniform) {
    while (count - begin >= kPerBlock) {
      const RandomBlocks::Stretch stretch = blocks.From(static_cast<uint64_t>(begin / kPerBlock));
      const uint64_t whole = std::min(stretch.blocks, static_cast<uint64_t>((count - begin) / kPerBlock));
      UniformFloats(stretch.key, stretch.counter, whole, out + begin);
      begin += static_cast<int64_t>(whole) * kPerBlock;
    }
  }
  for (; begin < count; begin += kPerBlock) {
    const PhiloxBlock words = blocks(static_cast<uint64_t>(begin / kPerBlock));
    for (int64_t i = 0; i < kPerBlock && begin + i < count; ++i)
      out[begin + i] = Draw<T, kDistribution>(words.data() + i * kWords);
  }
}

template <typename T, Distribution kDistribution>
class StatefulRandomKernel final : public Kernel {
 public:
  StatefulRandomKernel(int64_t count, uint32_t op) : count_(count), op_(op) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(const RandomBlocks blocks, RandomBlocks::OfRun(context, op_));
    Fill<T, kDistribution>(OutputOf<T>(context, 0), count_, blocks);
    return absl::OkStatus();
  }

 private:
  int64_t count_;
  uint32_t op_;
};

template <typename T, Distribution kDistribution>
StatusOr<Prepared> PrepareStatefulFor(const NodeView& node) {
  const int64_t count = node.outputs[0].shape.elements();
  Prepared prepared;
  prepared.kernel =
      std::make_unique<StatefulRandomKernel<T, kDistribution>>(count, static_cast<uint32_t>(node.op_index));
  prepared.implementation = "philox";
  return prepared;
}

template <Distribution kDistribution>
StatusOr<Prepared> PrepareStateful(const NodeView& node, const KernelPolicy&) {
  if (node.outputs[0].dtype == DType::kFloat64) return PrepareStatefulFor<double, kDistribution>(node);
  return PrepareStatefulFor<float, kDistribution>(node);
}

RIVULET_KERNEL("RandomUniform", Device::kCpu, void, PrepareStateful<Distribution::kUniform>);
RIVULET_KERNEL("RandomStandardNormal", Device::kCpu, void, PrepareStateful<Distribution::kNormal>);
RIVULET_KERNEL("TruncatedNormal", Device::kCpu, void, PrepareStateful<Distribution::kTruncatedNormal>);

}  // namespace
}  // namespace rivulet
