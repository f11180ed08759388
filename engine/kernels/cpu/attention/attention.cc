// Scaled dot-product attention and its backward pass. A block of queries is combined with all keys at once: two
// products and a softmax in scratch of a few rows, for any number of queries. The backward pass recomputes the
// probabilities from the stored log of their sums. Floats without mask and softcap use smaller tiles
// (attention_tiles.h) unless kernels must be portable.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/attention/attention_rows.h"
#include "engine/kernels/cpu/attention/attention_tiles.h"
#include "engine/kernels/cpu/attention/choose.h"
#include "engine/kernels/cpu/product/step_product.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {
namespace {

constexpr int64_t kBlockRows = 32;

// Sizes of an op, and offsets of its operands.
struct AttentionSizes {
  int64_t batch, heads, shared, time, keys, depth, width;
  bool has_mask, bool_mask, causal;
  int64_t causal_offset;
  double scale, softcap;
  int64_t mask_batch = 0, mask_head = 0, mask_row = 0, mask_key = 0;  // strides, 0 along broadcast axes

  explicit AttentionSizes(const NodeView& node) {
    const Shape &query = node.inputs[0].shape, &key = node.inputs[1].shape, &value = node.inputs[2].shape;
    batch = query.dim(0), heads = query.dim(1), time = query.dim(2), depth = query.dim(3);
    shared = key.dim(1), keys = key.dim(2), width = value.dim(3);
    const Shape& mask = node.inputs[3].shape;
    has_mask = mask.elements() > 0;
    bool_mask = node.inputs[3].dtype == DType::kBool;
    int64_t* const strides[4] = {&mask_batch, &mask_head, &mask_row, &mask_key};
    int64_t stride = 1;
    for (int axis = mask.rank() - 1; has_mask && axis >= 0; --axis) {
      if (mask.dim(axis) > 1) *strides[4 - mask.rank() + axis] = stride;
      stride *= mask.dim(axis);
    }
    causal = node.attr<bool>("causal");
    causal_offset = node.attr<int64_t>("causal_offset");
    scale = node.attr<float>("scale") != 0 ? static_cast<double>(node.attr<float>("scale"))
                                           : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1)));
    softcap = static_cast<double>(node.attr<float>("softcap"));
  }

  int64_t MaskRow(int64_t b, int64_t h, int64_t t) const { return b * mask_batch + h * mask_head + t * mask_row; }
  // Number of keys that query t may see.
  int64_t Visible(int64_t t) const {
    if (!causal) return keys;
    const int64_t offset = std::clamp(causal_offset, -time, keys);
    return std::clamp<int64_t>(t + offset + 1, 0, keys);
  }
  // Without mask and softcap.
  bool plain() const { return !has_mask && softcap == 0 && scale > 0; }
  // For a plain one.
  AttentionHead Head() const {
    return {.time = time,
            .keys = keys,
            .depth = depth,
            .width = width,
            .first_visible = causal ? std::clamp(causal_offset, -time, keys) + 1 : keys,
            .further = causal ? 1 : 0,
            .scale = static_cast<float>(scale)};
  }
  double flops() const {
    return 2.0 * static_cast<double>(batch * heads) * static_cast<double>(time) * static_cast<double>(keys) *
           static_cast<double>(depth + width);
  }
};

template <typename T>
void TimesAll(T* row, T factor, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    ScaleRow(row, factor, static_cast<size_t>(count));
  } else {
    for (int64_t j = 0; j < count; ++j) row[j] *= factor;
  }
}

template <typename T>
void TimesSlopes(const T* slope, T* gradient, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    TimesRow(slope, gradient, static_cast<size_t>(count));
  } else {
    for (int64_t j = 0; j < count; ++j) gradient[j] *= slope[j];
  }
}

// Converts products of a query and the first `visible` keys to scores. With a softcap, `slope` (unless null) gets d
// score / d product, which is the scale otherwise.
template <typename T>
void Scores(const AttentionSizes& s, const std::byte* mask, int64_t mask_row, int64_t visible, T* row, T* slope) {
  const T scale = static_cast<T>(s.scale), infinity = std::numeric_limits<T>::infinity();
  TimesAll(row, scale, visible);
  if (s.softcap > 0) {
    const T cap = static_cast<T>(s.softcap);
    for (int64_t j = 0; j < visible; ++j) row[j] /= cap;
    if constexpr (std::is_same_v<T, float>) {
      TanhOfRow(row, static_cast<size_t>(visible));
    } else {
      for (int64_t j = 0; j < visible; ++j) row[j] = math::Tanh(row[j]);
    }
    if (slope != nullptr)
      for (int64_t j = 0; j < visible; ++j) slope[j] = scale * (1 - row[j] * row[j]);
    TimesAll(row, cap, visible);
  }
  if (s.has_mask && s.bool_mask) {
    const bool* allowed = reinterpret_cast<const bool*>(mask) + mask_row;
    for (int64_t j = 0; j < visible; ++j) row[j] = allowed[j * s.mask_key] ? row[j] : -infinity;
  } else if (s.has_mask) {
    const T* added = reinterpret_cast<const T*>(mask) + mask_row;
    for (int64_t j = 0; j < visible; ++j) row[j] += added[j * s.mask_key];
  }
}

template <typename T>
void ExpShifted(T* row, T shift, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    ExpOfShifted(row, shift, row, static_cast<size_t>(count));
  } else {
    for (int64_t j = 0; j < count; ++j) row[j] = math::Exp(row[j] - shift);
  }
}

// In eight virtual lanes: the order is fixed, and there is more than one chain.
template <typename F>
double SumOver(int64_t count, F f) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += f(i + lane);
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += f(i);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The largest of `count` elements, -inf if there are none; may ignore NaN, because the sum of exponentials contains it.
template <typename T>
T LargestOf(const T* row, int64_t count) {
  if constexpr (std::is_same_v<T, float>) return LargestOfRow(row, static_cast<size_t>(count));
  constexpr int64_t kLanes = 16;
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = row[j + lane] > lanes[lane] ? row[j + lane] : lanes[lane];
  for (; j < count; ++j) lanes[0] = row[j] > lanes[0] ? row[j] : lanes[0];
  for (int64_t lane = 1; lane < kLanes; ++lane) lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  return lanes[0];
}

// Converts scores to probabilities, of which only the first `visible` may differ from 0; returns the log of the sum of
// their exponentials, -inf if no key is visible.
template <typename T>
T SoftmaxRow(T* row, int64_t visible, int64_t keys) {
  const T largest = LargestOf(row, visible);
  bool unseen = largest == -std::numeric_limits<T>::infinity();
  for (int64_t j = 0; unseen && j < visible; ++j) unseen = row[j] == row[j];  // a row with NaN is not unseen
  if (unseen) {
    std::fill_n(row, keys, T{0});
    return largest;
  }
  double sum = 0;
  if constexpr (std::is_same_v<T, float>) {
    sum = ExpAndSumOfRow(row, largest, static_cast<size_t>(visible));
  } else {
    ExpShifted(row, largest, visible);
    sum = SumOver(visible, [&](int64_t j) { return row[j]; });
  }
  TimesAll(row, static_cast<T>(1 / sum), visible);
  std::fill(row + visible, row + keys, T{0});
  return largest + static_cast<T>(math::Log(sum));
}

template <typename T>
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : s_(node),
        portable_(portable),
        tiles_(ChooseAttention<T>(s_.plain(), portable) == AttentionAlgorithm::kTiles),
        transposed_(scratch.Add(tiles_ ? s_.Head().transposed_floats(s_.depth) : s_.depth * s_.keys)),
        scores_(scratch.Add(tiles_ ? s_.Head().score_floats() : std::min(kBlockRows, s_.time) * s_.keys)) {}

  Status Run(const KernelContext& context) const override {
    if constexpr (std::is_same_v<T, float>) {
      if (tiles_) {
        RunTiles(context);
        return absl::OkStatus();
      }
    }
    const int64_t group = s_.shared == 0 ? 0 : s_.heads / s_.shared;
    T *transposed = As<T>(context.scratch) + transposed_, *scores = As<T>(context.scratch) + scores_;
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t shared = 0; shared < s_.shared; ++shared) {
        const int64_t pair = b * s_.shared + shared;
        const T* value = InputOf<T>(context, 2) + pair * s_.keys * s_.width;
        TransposeBlock(InputOf<T>(context, 1) + pair * s_.keys * s_.depth, s_.depth, transposed, s_.keys, s_.depth);
        for (int64_t h = shared * group; h < (shared + 1) * group; ++h) {
          for (int64_t t = 0; t < s_.time; t += kBlockRows) {
            const int64_t rows = std::min(kBlockRows, s_.time - t), first = (b * s_.heads + h) * s_.time + t;
            StepProduct<T>(portable_, InputOf<T>(context, 0) + first * s_.depth, s_.depth, 1, transposed, scores, rows,
                           s_.keys, s_.depth);
            for (int64_t row = 0; row < rows; ++row) {
              Scores<T>(s_, context.inputs[3], s_.MaskRow(b, h, t + row), s_.Visible(t + row), scores + row * s_.keys,
                        nullptr);
              OutputOf<T>(context, 1)[first + row] = SoftmaxRow(scores + row * s_.keys, s_.Visible(t + row), s_.keys);
            }
            StepProduct<T>(portable_, scores, s_.keys, 1, value, OutputOf<T>(context, 0) + first * s_.width, rows,
                           s_.width, s_.keys);
          }
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  void RunTiles(const KernelContext& context) const {
    const AttentionHead head = s_.Head();
    const int64_t group = s_.shared == 0 ? 0 : s_.heads / s_.shared;
    float *transposed = As<float>(context.scratch) + transposed_, *scores = As<float>(context.scratch) + scores_;
    for (int64_t pair = 0; pair < s_.batch * s_.shared; ++pair) {
      TransposeOfHead(head, InputOf<float>(context, 1) + pair * s_.keys * s_.depth, s_.depth, transposed);
      for (int64_t row = pair * group * s_.time; row < (pair + 1) * group * s_.time; row += s_.time)
        AttentionOfHead(head, InputOf<float>(context, 0) + row * s_.depth, transposed,
                        InputOf<float>(context, 2) + pair * s_.keys * s_.width,
                        OutputOf<float>(context, 0) + row * s_.width, OutputOf<float>(context, 1) + row, scores);
    }
  }

  AttentionSizes s_;
  bool portable_, tiles_;
  size_t transposed_, scores_;
};

template <typename T>
class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : s_(node),
        portable_(portable),
        tiles_(ChooseAttention<T>(s_.plain(), portable) == AttentionAlgorithm::kTiles),
        keys_(scratch.Add(tiles_ ? s_.Head().transposed_floats(s_.depth) : s_.depth * s_.keys)),
        values_(scratch.Add(tiles_ ? s_.Head().transposed_floats(s_.width) : s_.width * s_.keys)),
        mask_elements_(node.outputs[3].shape.elements()) {
    if (tiles_) {
      probabilities_ = scratch.Add(s_.Head().gradient_floats());
      return;
    }
    const int64_t block = std::min(kBlockRows, s_.time) * s_.keys;
    probabilities_ = scratch.Add(block);
    grads_ = scratch.Add(block);
    slopes_ = scratch.Add(block);
    part_ = scratch.Add(s_.keys * std::max(s_.depth, s_.width));
  }

  Status Run(const KernelContext& context) const override {
    const int64_t group = s_.shared == 0 ? 0 : s_.heads / s_.shared;
    T* const scratch = As<T>(context.scratch);
    std::fill_n(OutputOf<T>(context, 3), mask_elements_, T{0});
    if constexpr (std::is_same_v<T, float>) {
      if (tiles_) {
        RunTiles(context);
        return absl::OkStatus();
      }
    }
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t shared = 0; shared < s_.shared; ++shared) {
        const int64_t pair = b * s_.shared + shared;
        const int64_t key = pair * s_.keys * s_.depth, value = pair * s_.keys * s_.width;
        TransposeBlock(InputOf<T>(context, 1) + key, s_.depth, scratch + keys_, s_.keys, s_.depth);
        TransposeBlock(InputOf<T>(context, 2) + value, s_.width, scratch + values_, s_.keys, s_.width);
        std::fill_n(OutputOf<T>(context, 1) + key, s_.keys * s_.depth, T{0});
        std::fill_n(OutputOf<T>(context, 2) + value, s_.keys * s_.width, T{0});
        for (int64_t h = shared * group; h < (shared + 1) * group; ++h)
          for (int64_t t = 0; t < s_.time; t += kBlockRows) Block(context, b, h, t, key, value);
      }
    }
    return absl::OkStatus();
  }

 private:
  void RunTiles(const KernelContext& context) const {
    const AttentionHead head = s_.Head();
    const int64_t group = s_.shared == 0 ? 0 : s_.heads / s_.shared;
    float* const scratch = As<float>(context.scratch);
    for (int64_t pair = 0; pair < s_.batch * s_.shared; ++pair) {
      const int64_t key = pair * s_.keys * s_.depth, value = pair * s_.keys * s_.width;
      TransposeOfHead(head, InputOf<float>(context, 1) + key, s_.depth, scratch + keys_);
      TransposeOfHead(head, InputOf<float>(context, 2) + value, s_.width, scratch + values_);
      std::fill_n(OutputOf<float>(context, 1) + key, s_.keys * s_.depth, 0.0f);
      std::fill_n(OutputOf<float>(context, 2) + value, s_.keys * s_.width, 0.0f);
      for (int64_t row = pair * group * s_.time; row < (pair + 1) * group * s_.time; row += s_.time)
        AttentionGradientOfHead(head, {.query = InputOf<float>(context, 0) + row * s_.depth,
                                       .key = InputOf<float>(context, 1) + key,
                                       .transposed_keys = scratch + keys_,
                                       .transposed_values = scratch + values_,
                                       .output = InputOf<float>(context, 4) + row * s_.width,
                                       .log_sum = InputOf<float>(context, 5) + row,
                                       .output_grad = InputOf<float>(context, 6) + row * s_.width,
                                       .query_grad = OutputOf<float>(context, 0) + row * s_.depth,
                                       .key_grad = OutputOf<float>(context, 1) + key,
                                       .value_grad = OutputOf<float>(context, 2) + value,
                                       .scores = scratch + probabilities_});
    }
  }

  void Block(const KernelContext& context, int64_t b, int64_t h, int64_t t, int64_t key, int64_t value) const {
    const int64_t rows = std::min(kBlockRows, s_.time - t), first = (b * s_.heads + h) * s_.time + t;
    T* const scratch = As<T>(context.scratch);
    T *probabilities = scratch + probabilities_, *grads = scratch + grads_, *slopes = scratch + slopes_;
    T* part = scratch + part_;
    const T* query = InputOf<T>(context, 0) + first * s_.depth;
    const T *output = InputOf<T>(context, 4) + first * s_.width, *log_sum = InputOf<T>(context, 5) + first;
    const T* output_grad = InputOf<T>(context, 6) + first * s_.width;
    StepProduct<T>(portable_, query, s_.depth, 1, scratch + keys_, probabilities, rows, s_.keys, s_.depth);
    StepProduct<T>(portable_, output_grad, s_.width, 1, scratch + values_, grads, rows, s_.keys, s_.width);
    for (int64_t row = 0; row < rows; ++row) {
      T *p = probabilities + row * s_.keys, *g = grads + row * s_.keys, *slope = slopes + row * s_.keys;
      const int64_t mask_row = s_.MaskRow(b, h, t + row);
      const int64_t visible = log_sum[row] == -std::numeric_limits<T>::infinity() ? 0 : s_.Visible(t + row);
      Scores<T>(s_, context.inputs[3], mask_row, visible, p, slope);
      ExpShifted(p, log_sum[row], visible);
      std::fill(p + visible, p + s_.keys, T{0});
      std::fill(g + visible, g + s_.keys, T{0});
      const T *o = output + row * s_.width, *og = output_grad + row * s_.width;
      if constexpr (std::is_same_v<T, float>) {
        const double mean = DotOfRows(o, og, static_cast<size_t>(s_.width));
        SoftmaxGradientOfRow(p, static_cast<float>(mean), g, static_cast<size_t>(visible));
      } else {
        const T mean = SumOver(s_.width, [&](int64_t i) { return o[i] * og[i]; });
        for (int64_t j = 0; j < visible; ++j) g[j] = p[j] * (g[j] - mean);
      }
      if (mask_elements_ > 0) {
        T* mask_grad = OutputOf<T>(context, 3) + mask_row;
        for (int64_t j = 0; j < visible; ++j) mask_grad[j * s_.mask_key] += g[j];
      }
      if (s_.softcap > 0) {
        TimesSlopes(slope, g, visible);
      } else {
        TimesAll(g, static_cast<T>(s_.scale), visible);
      }
    }
    StepProduct<T>(portable_, grads, s_.keys, 1, InputOf<T>(context, 1) + key,
                   OutputOf<T>(context, 0) + first * s_.depth, rows, s_.depth, s_.keys);
    StepProduct<T>(portable_, grads, 1, s_.keys, query, part, s_.keys, s_.depth, rows);
    Add(part, OutputOf<T>(context, 1) + key, s_.keys * s_.depth);
    StepProduct<T>(portable_, probabilities, 1, s_.keys, output_grad, part, s_.keys, s_.width, rows);
    Add(part, OutputOf<T>(context, 2) + value, s_.keys * s_.width);
  }

  static void Add(const T* from, T* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }

  AttentionSizes s_;
  bool portable_, tiles_;
  size_t keys_, values_;
  int64_t mask_elements_;
  size_t probabilities_ = 0, grads_ = 0, slopes_ = 0, part_ = 0;
};

template <typename T, template <typename> class K>
StatusOr<Prepared> PrepareAttention(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<K<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  prepared.flops = AttentionSizes(node).flops() * (std::is_same_v<K<T>, AttentionKernel<T>> ? 1 : 2.5);
  return prepared;
}

RIVULET_KERNEL("ScaledDotProductAttention", Device::kCpu, float, (PrepareAttention<float, AttentionKernel>));
RIVULET_KERNEL("ScaledDotProductAttention", Device::kCpu, double, (PrepareAttention<double, AttentionKernel>));
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCpu, float, (PrepareAttention<float, AttentionGradKernel>));
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCpu, double, (PrepareAttention<double, AttentionGradKernel>));

}  // namespace
}  // namespace rivulet
