#include "engine/ops/window.h"

#include <algorithm>

#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 40;

template <typename T>
const T* FindAttr(const AttrMap& attrs, const char* name) {
  const auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : std::get_if<T>(&it->second);
}

// A list attribute of four integers; {1,1,1,1} where the op has none.
StatusOr<std::vector<int64_t>> FourIntegers(const AttrMap& attrs, const char* name) {
  const auto* list = FindAttr<std::vector<int64_t>>(attrs, name);
  if (list == nullptr) return std::vector<int64_t>{1, 1, 1, 1};
  if (list->size() != 4) return InvalidArgument("attribute '{}' must hold 4 integers, not {}", name, list->size());
  return *list;
}

struct Paddings {
  std::string kind;
  std::vector<int64_t> amounts = std::vector<int64_t>(8, 0);  // before and after, for each axis
};

StatusOr<Paddings> PaddingsOf(const AttrMap& attrs, const ImageLayout& layout) {
  Paddings paddings{*FindAttr<std::string>(attrs, "padding")};
  const auto* list = FindAttr<std::vector<int64_t>>(attrs, "explicit_paddings");
  if (list == nullptr) list = FindAttr<std::vector<int64_t>>(attrs, "_explicit_paddings");
  const bool given = list != nullptr && !list->empty();
  if (paddings.kind != "EXPLICIT") {
    if (given) return InvalidArgument("explicit_paddings need padding = EXPLICIT, not {}", paddings.kind);
    return paddings;
  }
  if (!given || list->size() != 8)
    return InvalidArgument("padding = EXPLICIT needs 8 explicit_paddings, not {}", given ? list->size() : 0);
  for (int64_t amount : *list)
    if (amount < 0 || amount > kMaxExtent) return InvalidArgument("explicit_paddings hold {}", amount);
  for (int axis : {layout.batch, layout.channels})
    if ((*list)[static_cast<size_t>(2 * axis)] != 0 || (*list)[static_cast<size_t>(2 * axis + 1)] != 0)
      return InvalidArgument("explicit_paddings of the batch and of channels must be 0");
  paddings.amounts = *list;
  return paddings;
}

StatusOr<ImageWindow> MakeWindow(const AttrMap& attrs, const Shape& image, const ImageLayout& layout,
                                 int64_t window_height, int64_t window_width,
                                 const char* dilations_name = "dilations") {
  if (image.rank() != 4) return InvalidArgument("the image must have 4 axes, not shape {}", image.ToString());
  RIVULET_ASSIGN_OR_RETURN(const auto strides, FourIntegers(attrs, "strides"));
  RIVULET_ASSIGN_OR_RETURN(const auto dilations, FourIntegers(attrs, dilations_name));
  const auto at = [](const std::vector<int64_t>& list, int axis) { return list[static_cast<size_t>(axis)]; };
  for (int axis : {layout.batch, layout.channels})
    if (at(strides, axis) != 1 || at(dilations, axis) != 1)
      return Unimplemented("strides and dilations over the batch or over channels must be 1");
  RIVULET_ASSIGN_OR_RETURN(const Paddings paddings, PaddingsOf(attrs, layout));
  ImageWindow window{.layout = layout, .height = {}, .width = {}};
  RIVULET_ASSIGN_OR_RETURN(window.height, MakeWindowAxis("height", image.dim(layout.height), window_height,
                                                         at(strides, layout.height), at(dilations, layout.height),
                                                         paddings.kind, at(paddings.amounts, 2 * layout.height),
                                                         at(paddings.amounts, 2 * layout.height + 1)));
  RIVULET_ASSIGN_OR_RETURN(
      window.width, MakeWindowAxis("width", image.dim(layout.width), window_width, at(strides, layout.width),
                                   at(dilations, layout.width), paddings.kind, at(paddings.amounts, 2 * layout.width),
                                   at(paddings.amounts, 2 * layout.width + 1)));
  return window;
}

StatusOr<ImageLayout> LayoutOf(const AttrMap& attrs) {
  const auto* data_format = FindAttr<std::string>(attrs, "data_format");
  return ImageLayout::Parse(data_format == nullptr ? "NHWC" : *data_format);
}

}  // namespace

StatusOr<ImageLayout> ImageLayout::Parse(std::string_view data_format) {
  if (data_format == "NHWC") return ImageLayout{};
  if (data_format == "NCHW")
    return ImageLayout{.batch = 0, .height = 2, .width = 3, .channels = 1, .channels_first = true};
  return InvalidArgument("data_format must be NHWC or NCHW, not '{}'", data_format);
}

StatusOr<WindowAxis> MakeWindowAxis(std::string_view name, int64_t input, int64_t window, int64_t stride,
                                    int64_t dilation, std::string_view padding, int64_t pad_before, int64_t pad_after) {
  if (stride < 1 || dilation < 1)
    return InvalidArgument("stride {} and dilation {} over the {} must be at least 1", stride, dilation, name);
  if (window != kUnknownDim && window < 1) return InvalidArgument("a window of {} {} is empty", name, window);
  if (stride > kMaxExtent || dilation > kMaxExtent || window > kMaxExtent)
    return InvalidArgument("stride {}, dilation {} or window {} over the {} is beyond 2^40", stride, dilation, window,
                           name);
  WindowAxis axis{input, kUnknownDim, window, stride, dilation, 0, 0};
  if (padding == "EXPLICIT") {
    axis.pad_before = pad_before;
    axis.pad_after = pad_after;
  }
  if (input == kUnknownDim) return axis;
  if (padding == "SAME") axis.output = input / stride + (input % stride != 0);
  if (window == kUnknownDim) return axis;
  int64_t extent = 0;  // of the dilated window
  if (__builtin_mul_overflow(window - 1, dilation, &extent) || extent >= kMaxExtent)
    return InvalidArgument("a window of {} with dilation {} over the {} is beyond 2^40", window, dilation, name);
  ++extent;
  if (padding == "SAME") {
    const int64_t total = std::max<int64_t>(0, (axis.output - 1) * stride + extent - input);
    axis.pad_before = total / 2;
    axis.pad_after = total - total / 2;
    return axis;
  }
  const int64_t padded = input + axis.pad_before + axis.pad_after;
  if (padded < extent)
    return InvalidArgument("a window of {} {} is larger than the image's {}{}", name, extent, padded,
                           padding == "VALID" ? "; padding = SAME would pad it" : "");
  axis.output = (padded - extent) / stride + 1;
  return axis;
}

StatusOr<ImageWindow> ConvolutionWindow(const AttrMap& attrs, const Shape& image, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(attrs));
  if (filter.rank() != 4) return InvalidArgument("the filter must have 4 axes, not shape {}", filter.ToString());
  return MakeWindow(attrs, image, layout, filter.dim(0), filter.dim(1));
}

StatusOr<ImageWindow> PoolWindow(const AttrMap& attrs, const Shape& image) {
  RIVULET_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(attrs));
  RIVULET_ASSIGN_OR_RETURN(const auto ksize, FourIntegers(attrs, "ksize"));
  if (ksize[static_cast<size_t>(layout.batch)] != 1 || ksize[static_cast<size_t>(layout.channels)] != 1)
    return Unimplemented("a pool over the batch or over channels (ksize other than 1 there)");
  RIVULET_ASSIGN_OR_RETURN(ImageWindow window,
                           MakeWindow(attrs, image, layout, ksize[static_cast<size_t>(layout.height)],
                                      ksize[static_cast<size_t>(layout.width)], "_dilations"));
  const bool* ceil_mode = FindAttr<bool>(attrs, "_ceil_mode");
  if (ceil_mode == nullptr || !*ceil_mode || *FindAttr<std::string>(attrs, "padding") == "SAME") return window;
  for (WindowAxis* axis : {&window.height, &window.width}) {
    if (axis->output == kUnknownDim) continue;
    const int64_t padded = axis->input + axis->pad_before + axis->pad_after;
    const int64_t rest = (padded - ((axis->window - 1) * axis->dilation + 1)) % axis->stride;
    if (rest != 0) ++axis->output;
    // A last window begins in the image or in the padding before it.
    if ((axis->output - 1) * axis->stride >= axis->input + axis->pad_before) --axis->output;
  }
  return window;
}

StatusOr<FusedOps> FusedOpsOf(const AttrMap& attrs) {
  FusedOps fused;
  const auto* names = FindAttr<std::vector<std::string>>(attrs, "fused_ops");
  if (names == nullptr) return fused;
  for (const std::string& name : *names) {
    const bool last = &name == &names->back();
    if (name == "BiasAdd" && &name == &names->front()) {
      fused.bias = true;
    } else if (name == "Relu" && last) {
      fused.activation = FusedOps::Activation::kRelu;
    } else if (name == "Relu6" && last) {
      fused.activation = FusedOps::Activation::kRelu6;
    } else {
      return Unimplemented("fused_ops have '{}' in a place for BiasAdd (first), Relu or Relu6 (last)", name);
    }
  }
  return fused;
}

}  // namespace rivulet
