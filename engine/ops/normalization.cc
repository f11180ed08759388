#include "engine/ops/normalization.h"

namespace rivulet {

StatusOr<int> NormalizedChannelAxis(const Shape& x, const std::string& data_format) {
  if (x.rank() < 2) return InvalidArgument("x {} must have an axis of examples and one of channels", x.ToString());
  return data_format.ends_with('C') ? x.rank() - 1 : 1;
}

Status MergeChannels(const InferenceContext& c, int i, std::string_view name, Shape& channels) {
  auto merged = Shape::Merge(channels, c.input(i));
  if (!merged.ok())
    return InvalidArgument("{} is {}, but one value per channel is needed: {}", name, c.input(i).ToString(),
                           channels.ToString());
  channels = *std::move(merged);
  return absl::OkStatus();
}

}  // namespace rivulet
