#include "engine/ops/volume_window.h"

#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

StatusOr<std::vector<int64_t>> FiveIntegers(const AttrMap& attrs, const char* name) {
  const auto it = attrs.find(name);
  const auto* list = it == attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
  if (list == nullptr) return std::vector<int64_t>(5, 1);
  if (list->size() != 5) return InvalidArgument("attribute '{}' must hold 5 integers, not {}", name, list->size());
  return *list;
}

StatusOr<bool> ChannelsFirst(const AttrMap& attrs) {
  const auto it = attrs.find("data_format");
  if (it == attrs.end()) return false;
  const auto* format = std::get_if<std::string>(&it->second);
  if (format != nullptr && *format == "NCDHW") return true;
  if (format != nullptr && *format == "NDHWC") return false;
  return InvalidArgument("data_format must be NDHWC or NCDHW");
}

}  // namespace

StatusOr<VolumeWindow> MakeVolumeWindow(const AttrMap& attrs, const Shape& volume,
                                        const std::array<int64_t, 3>& window) {
  if (volume.rank() != 5) return InvalidArgument("the volume must have 5 axes, not shape {}", volume.ToString());
  VolumeWindow made;
  RIVULET_ASSIGN_OR_RETURN(made.channels_first, ChannelsFirst(attrs));
  RIVULET_ASSIGN_OR_RETURN(const auto strides, FiveIntegers(attrs, "strides"));
  RIVULET_ASSIGN_OR_RETURN(const auto dilations, FiveIntegers(attrs, "dilations"));
  for (int axis : {0, made.channel_axis()})
    if (strides[static_cast<size_t>(axis)] != 1 || dilations[static_cast<size_t>(axis)] != 1)
      return Unimplemented("strides and dilations over the batch or over channels must be 1");
  static constexpr const char* kNames[] = {"depth", "height", "width"};
  const std::string& padding = std::get<std::string>(attrs.at("padding"));
  for (int i = 0; i < 3; ++i) {
    const auto axis = static_cast<size_t>(made.spatial_axis(i));
    RIVULET_ASSIGN_OR_RETURN(made.axes[static_cast<size_t>(i)],
                             MakeWindowAxis(kNames[i], volume.dim(made.spatial_axis(i)), window[static_cast<size_t>(i)],
                                            strides[axis], dilations[axis], padding));
  }
  return made;
}

StatusOr<VolumeWindow> PoolVolumeWindow(const AttrMap& attrs, const Shape& volume) {
  RIVULET_ASSIGN_OR_RETURN(const bool first, ChannelsFirst(attrs));
  RIVULET_ASSIGN_OR_RETURN(const auto ksize, FiveIntegers(attrs, "ksize"));
  if (ksize[0] != 1 || ksize[first ? 1 : 4] != 1)
    return Unimplemented("a pool over the batch or over channels (ksize other than 1 there)");
  const size_t at = first ? 2 : 1;
  return MakeVolumeWindow(attrs, volume, {ksize[at], ksize[at + 1], ksize[at + 2]});
}

Shape VolumeOutput(const VolumeWindow& window, const Shape& volume, int64_t channels) {
  Shape output = volume;
  output.set_dim(window.channel_axis(), channels);
  for (int i = 0; i < 3; ++i) output.set_dim(window.spatial_axis(i), window.axes[static_cast<size_t>(i)].output);
  return output;
}

}  // namespace rivulet
