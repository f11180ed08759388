// Selection of boxes that do not overlap a better one.
#include <algorithm>
#include <numeric>

#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

// Corners may be in any order, as in TensorFlow.
Box BoxAt(const Tensor& boxes, int64_t i) {
  const float* at = boxes.flat<float>().data() + 4 * i;
  return {std::min(at[0], at[2]), std::min(at[1], at[3]), std::max(at[0], at[2]), std::max(at[1], at[3])};
}

float Overlap(const Box& a, const Box& b) {
  if (a.area() <= 0 || b.area() <= 0) return 0;
  const float height = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.0f);
  const float width = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.0f);
  const float common = height * width;
  return common / (a.area() + b.area() - common);
}

StatusOr<std::vector<Tensor>> Suppressed(const AsyncContext& context) {
  const Tensor &boxes = context.inputs[0], &scores = context.inputs[1];
  const int64_t most = context.inputs[2].flat<int32_t>()[0];
  const float overlap = context.inputs[3].flat<float>()[0], least = context.inputs[4].flat<float>()[0];
  if (boxes.shape().rank() != 2 || boxes.shape().dim(1) != 4 || scores.elements() != boxes.shape().dim(0))
    return InvalidArgument("boxes {} and scores {} are not [n,4] and [n]", boxes.shape().ToString(),
                           scores.shape().ToString());
  if (!(overlap >= 0 && overlap <= 1)) return InvalidArgument("iou_threshold is {}, not within [0, 1]", overlap);
  std::vector<int64_t> order(static_cast<size_t>(scores.elements())), chosen;
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int64_t i) { return scores.flat<float>()[static_cast<size_t>(i)]; };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return score(a) > score(b); });
  for (const int64_t i : order) {
    if (static_cast<int64_t>(chosen.size()) >= most) break;
    if (!(score(i) > least)) continue;
    const bool free = std::ranges::none_of(
        chosen, [&](int64_t better) { return Overlap(BoxAt(boxes, i), BoxAt(boxes, better)) > overlap; });
    if (free) chosen.push_back(i);
  }
  const auto valid = static_cast<int32_t>(chosen.size());
  const bool counts = context.node.outputs().size() == 2;
  if (counts && context.node.attr<bool>("pad_to_max_output_size"))
    chosen.resize(static_cast<size_t>(std::max<int64_t>(most, 0)));
  RIVULET_ASSIGN_OR_RETURN(Tensor indices, Tensor::Create(DType::kInt32, Shape({static_cast<int64_t>(chosen.size())})));
  std::ranges::transform(chosen, indices.flat<int32_t>().begin(), [](int64_t i) { return static_cast<int32_t>(i); });
  std::vector<Tensor> outputs = {std::move(indices)};
  if (counts) outputs.push_back(Tensor::Scalar(valid));
  return outputs;
}
void NonMaxSuppression(AsyncContext& context, AsyncDone done) { done(Suppressed(context)); }
RIVULET_DYNAMIC_OP("NonMaxSuppressionV3", NonMaxSuppression);
RIVULET_DYNAMIC_OP("NonMaxSuppressionV4", NonMaxSuppression);

}  // namespace
}  // namespace rivulet
