// TensorFlow's random numbers by seed, or by key and counter: Philox4x32-10, with TensorFlow's conversions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/math.h"
#include "engine/base/trigonometry.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

// Words of one stream, block by block, numbered by a counter of 128 bits.
class Words {
 public:
  Words(PhiloxKey key, PhiloxBlock counter) : key_(key), counter_(counter) {}

  // Spreads two numbers over key and counter as TensorFlow does (GenerateKey), so that any part of a seed may be weak.
  static Words OfSeed(uint64_t first, uint64_t second) {
    const PhiloxBlock mix = Philox4x32({{0x3ec8f720, 0x02461e29}}, Halves(first, second));
    return {{{mix[0], mix[1]}}, {0, 0, mix[2], mix[3]}};
  }
  static Words OfKey(uint64_t key, uint64_t low, uint64_t high) {
    return {{{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}}, Halves(low, high)};
  }
  static PhiloxBlock Halves(uint64_t low, uint64_t high) {
    return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
            static_cast<uint32_t>(high >> 32)};
  }

  PhiloxBlock Block(uint64_t index) const {
    uint64_t low = uint64_t{counter_[1]} << 32 | counter_[0], high = uint64_t{counter_[3]} << 32 | counter_[2];
    if (__builtin_add_overflow(low, index, &low)) ++high;
    return Philox4x32(key_, Halves(low, high));
  }
  PhiloxKey key() const { return key_; }
  PhiloxBlock counter() const { return counter_; }

 private:
  PhiloxKey key_;
  PhiloxBlock counter_;
};

// Words in order, starting with a block.
class WordReader {
 public:
  WordReader(const Words& words, uint64_t block) : words_(words), block_(block) {}
  uint32_t Next() {
    if (used_ == 4) {
      now_ = words_.Block(block_++);
      used_ = 0;
    }
    return now_[used_++];
  }

 private:
  const Words& words_;
  uint64_t block_;
  PhiloxBlock now_{};
  size_t used_ = 4;
};

// [0, 1), from a mantissa's bits.
float UniformOf(uint32_t word) { return static_cast<float>(word & 0x7FFFFF) * 0x1p-23f; }
double UniformOf(uint32_t first, uint32_t second) {
  return static_cast<double>(uint64_t{first & 0xFFFFF} << 32 | second) * 0x1p-52;
}

// Two normal numbers from two uniform ones (Box and Muller 1958).
template <typename T>
void BoxMuller(const uint32_t* words, T out[2]) {
  constexpr double kLeast = 1.0e-7, kTurn = 6.28318530717958647692;
  double u = 0, angle = 0;
  if constexpr (std::is_same_v<T, float>) {
    u = std::max(UniformOf(words[0]), static_cast<float>(kLeast));
    angle = static_cast<float>(kTurn) * UniformOf(words[1]);
  } else {
    u = std::max(UniformOf(words[0], words[1]), kLeast);
    angle = kTurn * UniformOf(words[2], words[3]);
  }
  const double radius = std::sqrt(-2.0 * math::Log(u));
  out[0] = static_cast<T>(math::Sin(angle) * radius);
  out[1] = static_cast<T>(math::Cos(angle) * radius);
}

template <typename T>
constexpr int64_t kPerBlock = sizeof(T) == 4 ? 4 : 2;  // numbers per block of words

template <typename T>
void Uniform(const Words& words, int64_t count, T* out) {
  for (int64_t i = 0; i < count; i += kPerBlock<T>) {
    const PhiloxBlock block = words.Block(static_cast<uint64_t>(i / kPerBlock<T>));
    for (int64_t j = 0; j < kPerBlock<T> && i + j < count; ++j) {
      if constexpr (std::is_same_v<T, float>)
        out[i + j] = UniformOf(block[static_cast<size_t>(j)]);
      else
        out[i + j] = UniformOf(block[static_cast<size_t>(2 * j)], block[static_cast<size_t>(2 * j + 1)]);
    }
  }
}

template <typename T>
void Normal(const Words& words, int64_t count, T* out) {
  for (int64_t i = 0; i < count; i += kPerBlock<T>) {
    const PhiloxBlock block = words.Block(static_cast<uint64_t>(i / kPerBlock<T>));
    T pair[4];
    BoxMuller(block.data(), pair);
    if constexpr (std::is_same_v<T, float>) BoxMuller(block.data() + 2, pair + 2);
    std::copy_n(pair, std::min(kPerBlock<T>, count - i), out + i);
  }
}

// Each group of numbers reserves 256 words per number, more than it ever needs: so a group does not depend on the
// number of repeated draws in earlier groups.
template <typename T>
void TruncatedNormal(const Words& words, int64_t count, T* out) {
  constexpr uint64_t kBlocksPerGroup = static_cast<uint64_t>(kPerBlock<T>) * 256 / 4;
  for (int64_t i = 0; i < count; i += kPerBlock<T>) {
    WordReader reader(words, static_cast<uint64_t>(i / kPerBlock<T>) * kBlocksPerGroup);
    const int64_t wanted = std::min(kPerBlock<T>, count - i);
    for (int64_t have = 0; have < wanted;) {
      uint32_t drawn[4];
      for (size_t j = 0; j < sizeof(T) / 2; ++j) drawn[j] = reader.Next();
      T pair[2];
      BoxMuller(drawn, pair);
      for (const T value : pair)
        if (std::abs(value) < T{2} && have < wanted) out[i + have++] = value;
    }
  }
}

template <typename T>
void FullInt(const Words& words, int64_t count, T* out) {
  for (int64_t i = 0; i < count; i += kPerBlock<T>) {
    const PhiloxBlock block = words.Block(static_cast<uint64_t>(i / kPerBlock<T>));
    for (int64_t j = 0; j < kPerBlock<T> && i + j < count; ++j) {
      if constexpr (sizeof(T) == 4)
        out[i + j] = static_cast<T>(block[static_cast<size_t>(j)]);
      else
        out[i + j] =
            static_cast<T>(uint64_t{block[static_cast<size_t>(2 * j + 1)]} << 32 | block[static_cast<size_t>(2 * j)]);
    }
  }
}

// Source of the words: a seed (input 1), or key, counter and algorithm (inputs 1 to 3).
class Source {
 public:
  static Source Of(const NodeView& node, size_t at) {
    Source source;
    source.at_ = at;
    source.keyed_ = node.inputs[at].dtype == DType::kUint64;
    source.wide_ = node.inputs[at].dtype == DType::kInt64;
    return source;
  }
  // Index of the first input after it.
  size_t end() const { return keyed_ ? at_ + 3 : at_ + 1; }

  StatusOr<Words> Open(const KernelContext& context) const {
    if (!keyed_) return OfSeed(context.inputs[at_], wide_);
    const int32_t algorithm = *InputOf<int32_t>(context, at_ + 2);
    if (algorithm != 1 && algorithm != 3)
      return Unimplemented("alg is {}; random numbers are drawn by 1 (Philox)", algorithm);
    const uint64_t* counter = InputOf<uint64_t>(context, at_ + 1);
    return Words::OfKey(*InputOf<uint64_t>(context, at_), counter[0], counter[1]);
  }
  static Words OfSeed(const std::byte* seed, bool wide) {
    uint64_t parts[2];
    for (size_t i = 0; i < 2; ++i)
      parts[i] = wide ? static_cast<uint64_t>(reinterpret_cast<const int64_t*>(seed)[i])
                      : static_cast<uint64_t>(int64_t{reinterpret_cast<const int32_t*>(seed)[i]});
    return Words::OfSeed(parts[0], parts[1]);
  }

 private:
  size_t at_ = 1;
  bool keyed_ = false, wide_ = false;
};

template <typename T>
using WordsTo = void (*)(const Words& words, int64_t count, T* out);

template <typename T>
class DrawKernel final : public Kernel {
 public:
  DrawKernel(Source source, int64_t count, WordsTo<T> draw) : source_(source), count_(count), draw_(draw) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(const Words words, source_.Open(context));
    draw_(words, count_, OutputOf<T>(context, 0));
    return absl::OkStatus();
  }

 private:
  Source source_;
  int64_t count_;
  WordsTo<T> draw_;
};

template <typename T>
StatusOr<Prepared> MakeDraw(const NodeView& node, WordsTo<T> draw) {
  Prepared prepared;
  prepared.kernel = std::make_unique<DrawKernel<T>>(Source::Of(node, 1), node.outputs[0].shape.elements(), draw);
  prepared.implementation = "philox";
  return prepared;
}

template <WordsTo<float> kOfFloats, WordsTo<double> kOfDoubles>
StatusOr<Prepared> PrepareDraw(const NodeView& node, const KernelPolicy&) {
  if (node.outputs[0].dtype == DType::kFloat64) return MakeDraw<double>(node, kOfDoubles);
  return MakeDraw<float>(node, kOfFloats);
}

StatusOr<Prepared> PrepareFullInt(const NodeView& node, const KernelPolicy&) {
  switch (node.outputs[0].dtype) {
    case DType::kInt32:
      return MakeDraw<int32_t>(node, FullInt<int32_t>);
    case DType::kUint32:
      return MakeDraw<uint32_t>(node, FullInt<uint32_t>);
    case DType::kInt64:
      return MakeDraw<int64_t>(node, FullInt<int64_t>);
    default:
      return MakeDraw<uint64_t>(node, FullInt<uint64_t>);
  }
}

// Uses the remainder of a division, as TensorFlow does, which slightly favours small numbers.
template <typename T>
class SeededUniformIntKernel final : public Kernel {
 public:
  SeededUniformIntKernel(Source source, int64_t count) : source_(source), count_(count) {}
  Status Run(const KernelContext& context) const override {
    using U = std::make_unsigned_t<T>;
    const T low = *InputOf<T>(context, source_.end()), high = *InputOf<T>(context, source_.end() + 1);
    if (low >= high) return InvalidArgument("minval {} must be below maxval {}", low, high);
    RIVULET_ASSIGN_OR_RETURN(const Words words, source_.Open(context));
    T* out = OutputOf<T>(context, 0);
    FullInt(words, count_, out);
    const U span = static_cast<U>(high) - static_cast<U>(low);
    for (int64_t i = 0; i < count_; ++i) out[i] = static_cast<T>(static_cast<U>(low) + static_cast<U>(out[i]) % span);
    return absl::OkStatus();
  }

 private:
  Source source_;
  int64_t count_;
};

StatusOr<Prepared> PrepareSeededUniformInt(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  Prepared prepared;
  if (node.outputs[0].dtype == DType::kInt64)
    prepared.kernel = std::make_unique<SeededUniformIntKernel<int64_t>>(Source::Of(node, 1), count);
  else
    prepared.kernel = std::make_unique<SeededUniformIntKernel<int32_t>>(Source::Of(node, 1), count);
  prepared.implementation = "philox";
  return prepared;
}

class KeyCounterKernel final : public Kernel {
 public:
  explicit KeyCounterKernel(bool wide) : wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    const Words words = Source::OfSeed(context.inputs[0], wide_);
    const PhiloxKey key = words.key();
    const PhiloxBlock counter = words.counter();
    *OutputOf<uint64_t>(context, 0) = uint64_t{key.words[1]} << 32 | key.words[0];
    OutputOf<uint64_t>(context, 1)[0] = uint64_t{counter[1]} << 32 | counter[0];
    OutputOf<uint64_t>(context, 1)[1] = uint64_t{counter[3]} << 32 | counter[2];
    return absl::OkStatus();
  }

 private:
  bool wide_;
};

StatusOr<Prepared> PrepareKeyCounter(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<KeyCounterKernel>(node.inputs[0].dtype == DType::kInt64);
  prepared.implementation = "philox";
  return prepared;
}

class AlgorithmKernel final : public Kernel {
 public:
  Status Run(const KernelContext& context) const override {
    *OutputOf<int32_t>(context, 0) = 1;
    return absl::OkStatus();
  }
};

StatusOr<Prepared> PrepareAlgorithm(const NodeView&, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<AlgorithmKernel>();
  prepared.implementation = "constant";
  return prepared;
}

// logits [rows, classes]: the position of a uniform number among the cumulative weights. Rows draw in order.
template <typename T>
class SeededMultinomialKernel final : public Kernel {
 public:
  SeededMultinomialKernel(Source source, const Shape& logits, int64_t samples, bool wide)
      : source_(source), rows_(logits.dim(0)), classes_(logits.dim(1)), samples_(samples), wide_(wide) {}
  Status Run(const KernelContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(const Words words, source_.Open(context));
    WordReader reader(words, 0);
    const T* logits = InputOf<T>(context, 0);
    double* cumulative = As<double>(context.scratch);
    for (int64_t row = 0; row < rows_ && samples_ > 0; ++row, logits += classes_) {
      const double total = Accumulate(logits, cumulative);
      if (!(total > 0)) return InvalidArgument("row {} of the logits holds no probabilities: none is finite", row);
      for (int64_t i = 0; i < samples_; ++i) {
        const uint32_t first = reader.Next(), second = reader.Next();
        const int64_t choice =
            std::upper_bound(cumulative, cumulative + classes_, UniformOf(first, second) * total) - cumulative;
        if (wide_)
          OutputOf<int64_t>(context, 0)[row * samples_ + i] = choice;
        else
          OutputOf<int32_t>(context, 0)[row * samples_ + i] = static_cast<int32_t>(choice);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Classes with a logit that is not finite are never drawn.
  double Accumulate(const T* logits, double* cumulative) const {
    T largest = std::numeric_limits<T>::lowest();
    for (int64_t c = 0; c < classes_; ++c)
      if (std::isfinite(logits[c])) largest = std::max(largest, logits[c]);
    double total = 0;
    for (int64_t c = 0; c < classes_; ++c) {
      if (std::isfinite(logits[c])) total += math::Exp(static_cast<double>(logits[c]) - static_cast<double>(largest));
      cumulative[c] = total;
    }
    return total;
  }

  Source source_;
  int64_t rows_, classes_, samples_;
  bool wide_;
};

template <typename T>
StatusOr<Prepared> PrepareSeededMultinomial(const NodeView& node, const KernelPolicy&) {
  const Shape& logits = node.inputs[0].shape;
  Prepared prepared;
  prepared.kernel = std::make_unique<SeededMultinomialKernel<T>>(
      Source::Of(node, 2), logits, node.outputs[0].shape.dim(1), node.outputs[0].dtype == DType::kInt64);
  prepared.scratch_bytes = static_cast<size_t>(logits.dim(1)) * sizeof(double);
  prepared.implementation = "philox";
  return prepared;
}

#define RIVULET_BY_SEED_AND_KEY(name, prepare)       \
  RIVULET_KERNEL(name, Device::kCpu, void, prepare); \
  RIVULET_KERNEL(name "V2", Device::kCpu, void, prepare);
RIVULET_BY_SEED_AND_KEY("StatelessRandomUniform", (PrepareDraw<Uniform<float>, Uniform<double>>))
RIVULET_BY_SEED_AND_KEY("StatelessRandomNormal", (PrepareDraw<Normal<float>, Normal<double>>))
RIVULET_BY_SEED_AND_KEY("StatelessTruncatedNormal", (PrepareDraw<TruncatedNormal<float>, TruncatedNormal<double>>))
RIVULET_BY_SEED_AND_KEY("StatelessRandomUniformInt", PrepareSeededUniformInt)
RIVULET_BY_SEED_AND_KEY("StatelessRandomUniformFullInt", PrepareFullInt)
RIVULET_KERNEL("StatelessRandomGetKeyCounter", Device::kCpu, void, PrepareKeyCounter);
RIVULET_KERNEL("StatelessRandomGetAlg", Device::kCpu, void, PrepareAlgorithm);
RIVULET_KERNEL("StatelessMultinomial", Device::kCpu, float, PrepareSeededMultinomial<float>);
RIVULET_KERNEL("StatelessMultinomial", Device::kCpu, double, PrepareSeededMultinomial<double>);

}  // namespace
}  // namespace rivulet
