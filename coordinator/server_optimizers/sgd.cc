#include "coordinator/server_optimizers/sgd.h"

#include <bit>
#include <cstring>

namespace rivulet {
namespace {

// next[i] = base[i] + learning_rate × delta[i]; whether every result is finite. Without a branch, so that it is
// vectors: NaN and infinity are the floats whose exponent is all ones.
bool StepValues(std::span<const float> base, std::span<const float> delta, double learning_rate,
                std::span<float> next) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t bad = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    next[i] = static_cast<float>(static_cast<double>(base[i]) + learning_rate * static_cast<double>(delta[i]));
    bad |= (std::bit_cast<uint32_t>(next[i]) & kExponent) == kExponent ? 1 : 0;
  }
  return bad == 0;
}

}  // namespace

StatusOr<std::shared_ptr<const Model>> ApplyMeanDelta(const Model& base, std::span<const float> mean_delta,
                                                      double learning_rate) {
  const ModelLayout& layout = base.layout();
  if (static_cast<int64_t>(mean_delta.size()) != layout.update_elements()) {
    return InvalidArgument("a mean delta of {} elements does not fit a model whose updates have {}", mean_delta.size(),
                           layout.update_elements());
  }
  auto model = std::make_shared<Model>(base.shared_layout());
  for (const Slice& slice : layout.slices()) {
    const TensorView from = base.tensor(slice), to = model->tensor(slice);
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) {
      if (from.bytes() > 0) std::memcpy(to.data, from.data, from.bytes());
      continue;
    }
    const auto delta = mean_delta.subspan(static_cast<size_t>(slice.wire_offset), static_cast<size_t>(slice.elements));
    if (!StepValues(from.flat<float>(), delta, learning_rate, to.flat<float>())) {
      return FailedPrecondition(
          "the new model is not finite in '{}'; lower server.learning_rate ({:g}) or the clients' own", slice.name,
          learning_rate);
    }
  }
  return model;
}

}  // namespace rivulet
