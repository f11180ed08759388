#include "coordinator/server_optimizers/sgd.h"

#include <cmath>
#include <cstring>

namespace rivulet {

StatusOr<std::shared_ptr<const Model>> ApplyMeanDelta(const Model& base, std::span<const float> mean_delta,
                                                      double learning_rate) {
  const ModelLayout& layout = base.layout();
  if (static_cast<int64_t>(mean_delta.size()) != layout.update_elements()) {
    return InvalidArgument("a mean delta of {} elements does not fit a model whose updates have {}", mean_delta.size(),
                           layout.update_elements());
  }
  auto model = std::make_shared<Model>(base.shared_layout());
  std::memcpy(model->arena().data(), base.arena().data(), base.arena().size());
  for (const Slice& slice : layout.slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    const auto delta = mean_delta.subspan(static_cast<size_t>(slice.wire_offset), static_cast<size_t>(slice.elements));
    auto* values = reinterpret_cast<float*>(model->arena().data() + slice.offset);
    bool finite = true;
    for (size_t i = 0; i < delta.size(); ++i) {
      values[i] = static_cast<float>(static_cast<double>(values[i]) + learning_rate * static_cast<double>(delta[i]));
      finite &= std::isfinite(values[i]);
    }
    if (!finite) {
      return FailedPrecondition(
          "the new model is not finite in '{}'; lower server.learning_rate ({:g}) or the clients' own", slice.name,
          learning_rate);
    }
  }
  return model;
}

}  // namespace rivulet
