#include "engine/kernels/cpu/convolution/window.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

StatusOr<Window> Geometry(const NodeView& node, const Shape& input, const Shape& output) {
  Window w;
  w.nchw = node.node.HasAttr("data_format") && node.attr<std::string>("data_format") == "NCHW";
  if (input.rank() != 4 || output.rank() != 4) {
    return InvalidArgument("images have 4 dimensions, not {} and {}", input.ToString(), output.ToString());
  }
  const int h = w.nchw ? 2 : 1, x = w.nchw ? 3 : 2, c = w.nchw ? 1 : 3;
  w.batch = input.dim(0);
  w.in_height = input.dim(h);
  w.in_width = input.dim(x);
  w.in_channels = input.dim(c);
  w.out_height = output.dim(h);
  w.out_width = output.dim(x);
  w.out_channels = output.dim(c);
  const auto& strides = node.attr<std::vector<int64_t>>("strides");
  if (strides.size() != 4 || strides[0] != 1 || strides[static_cast<size_t>(c)] != 1 ||
      strides[static_cast<size_t>(h)] < 1 || strides[static_cast<size_t>(x)] < 1) {
    return InvalidArgument("strides must be 4 positive numbers with 1 for batch and channels");
  }
  w.stride_height = strides[static_cast<size_t>(h)];
  w.stride_width = strides[static_cast<size_t>(x)];
  if (node.node.HasAttr("dilations")) {
    const auto& dilations = node.attr<std::vector<int64_t>>("dilations");
    if (dilations.size() == 4) {
      w.dilation_height = dilations[static_cast<size_t>(h)];
      w.dilation_width = dilations[static_cast<size_t>(x)];
    }
    if (w.dilation_height < 1 || w.dilation_width < 1) return InvalidArgument("dilations must be positive");
  }
  return w;
}

Status SetPadding(const NodeView& node, Window& w) {
  const std::string& padding = node.attr<std::string>("padding");
  const int64_t reach_h = (w.height - 1) * w.dilation_height + 1, reach_w = (w.width - 1) * w.dilation_width + 1;
  const auto total = [](int64_t out, int64_t stride, int64_t reach, int64_t in) {
    return std::max<int64_t>(0, (out - 1) * stride + reach - in);
  };
  if (padding == "SAME") {
    const int64_t h = total(w.out_height, w.stride_height, reach_h, w.in_height);
    const int64_t x = total(w.out_width, w.stride_width, reach_w, w.in_width);
    w.pad_top = h / 2;
    w.pad_bottom = h - h / 2;
    w.pad_left = x / 2;
    w.pad_right = x - x / 2;
  } else if (padding == "EXPLICIT") {
    const auto& pads = node.attr<std::vector<int64_t>>("explicit_paddings");
    if (pads.size() != 8) return InvalidArgument("explicit_paddings has {} numbers, not 8", pads.size());
    const size_t h = w.nchw ? 4 : 2, x = w.nchw ? 6 : 4;
    w.pad_top = pads[h];
    w.pad_bottom = pads[h + 1];
    w.pad_left = pads[x];
    w.pad_right = pads[x + 1];
  } else if (padding != "VALID") {
    return InvalidArgument("padding '{}' is not one of SAME, VALID and EXPLICIT", padding);
  }
  const auto extent = [](int64_t in, int64_t before, int64_t after, int64_t reach, int64_t stride) {
    return in + before + after < reach ? 0 : (in + before + after - reach) / stride + 1;
  };
  if (w.out_height != extent(w.in_height, w.pad_top, w.pad_bottom, reach_h, w.stride_height) ||
      w.out_width != extent(w.in_width, w.pad_left, w.pad_right, reach_w, w.stride_width)) {
    return InvalidArgument("an image of {}x{} under a window of {}x{} does not give {}x{}", w.in_height, w.in_width,
                           w.height, w.width, w.out_height, w.out_width);
  }
  return {};
}

// Transposes elements of two, four or eight bytes, [batch, rows, columns] → [batch, columns, rows], in tiles whose
// lines stay in the cache.
template <typename Word>
void Transpose(const std::byte* from, std::byte* to, int64_t batch, int64_t rows, int64_t columns) {
  const Word* in = reinterpret_cast<const Word*>(from);
  Word* out = reinterpret_cast<Word*>(to);
  for (int64_t b = 0; b < batch; ++b, in += rows * columns, out += rows * columns) {
    constexpr int64_t kTile = 16;
    for (int64_t top = 0; top < rows; top += kTile) {
      const int64_t bottom = std::min(rows, top + kTile);
      for (int64_t left = 0; left < columns; left += kTile) {
        const int64_t right = std::min(columns, left + kTile);
        for (int64_t column = left; column < right; ++column) {
          for (int64_t row = top; row < bottom; ++row) out[column * rows + row] = in[row * columns + column];
        }
      }
    }
  }
}

struct NchwImage {
  bool transposed = false;
  int64_t batch = 0, channels = 0, pixels = 0;
  size_t word = 4, offset = 0;
  void ToNhwc(const std::byte* from, std::byte* to) const { Turn(from, to, channels, pixels); }
  void ToNchw(const std::byte* from, std::byte* to) const { Turn(from, to, pixels, channels); }
  void Turn(const std::byte* from, std::byte* to, int64_t rows, int64_t columns) const {
    if (word == 2) return Transpose<uint16_t>(from, to, batch, rows, columns);
    if (word == 4) return Transpose<uint32_t>(from, to, batch, rows, columns);
    Transpose<uint64_t>(from, to, batch, rows, columns);
  }
};

class NchwKernel final : public Kernel {
 public:
  NchwKernel(std::unique_ptr<const Kernel> nhwc, std::vector<NchwImage> inputs, NchwImage output, size_t inner_scratch)
      : nhwc_(std::move(nhwc)), inputs_(std::move(inputs)), output_(output), inner_scratch_(inner_scratch) {}

  Status Run(const KernelContext& context) const override {
    std::array<std::byte*, 4> inputs{};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs[i] = context.inputs[i];
      if (!inputs_[i].transposed) continue;
      inputs[i] = context.scratch + inner_scratch_ + inputs_[i].offset;
      inputs_[i].ToNhwc(context.inputs[i], inputs[i]);
    }
    std::array<std::byte*, 1> outputs{context.outputs[0]};
    if (output_.transposed) outputs[0] = context.scratch + inner_scratch_ + output_.offset;
    KernelContext inner = context;
    inner.inputs = std::span<std::byte* const>(inputs.data(), inputs_.size());
    inner.outputs = outputs;
    RIVULET_RETURN_IF_ERROR(nhwc_->Run(inner));
    if (output_.transposed) output_.ToNchw(outputs[0], context.outputs[0]);
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override { return nhwc_->NewState(); }

 private:
  std::unique_ptr<const Kernel> nhwc_;
  std::vector<NchwImage> inputs_;
  NchwImage output_;
  size_t inner_scratch_;
};

}  // namespace

StatusOr<Window> ConvWindow(const NodeView& node, const Shape& input, const Shape& filter, const Shape& output,
                            bool depthwise_filter) {
  RIVULET_ASSIGN_OR_RETURN(Window w, Geometry(node, input, output));
  if (filter.rank() != 4) return InvalidArgument("a filter has 4 dimensions, not {}", filter.ToString());
  if (depthwise_filter) {
    if (filter.dim(2) != w.in_channels || filter.dim(2) * filter.dim(3) != w.out_channels) {
      return InvalidArgument("a depthwise filter of {} does not make {} channels of {}", filter.ToString(),
                             w.out_channels, w.in_channels);
    }
    w.groups = std::max<int64_t>(w.in_channels, 1);
  } else {
    const int64_t in = filter.dim(2);
    w.groups = in > 0 ? std::max<int64_t>(w.in_channels / in, 1) : 1;
    if (filter.dim(3) != w.out_channels || in * w.groups != w.in_channels || w.out_channels % w.groups != 0) {
      return InvalidArgument("a filter of {} does not make {} channels of {}", filter.ToString(), w.out_channels,
                             w.in_channels);
    }
  }
  w.height = filter.dim(0);
  w.width = filter.dim(1);
  RIVULET_RETURN_IF_ERROR(SetPadding(node, w));
  return w;
}

Prepared ForNchw(Prepared nhwc, std::span<const TensorSpec> inputs, const TensorSpec& output,
                 std::vector<bool> image_inputs, bool image_output) {
  size_t offset = 0;
  const auto image = [&](const TensorSpec& spec, bool transposed) {
    NchwImage made;
    made.transposed = transposed;
    if (!transposed) return made;
    made.batch = spec.shape.dim(0);
    made.channels = spec.shape.dim(1);
    made.pixels = spec.shape.dim(2) * spec.shape.dim(3);
    made.word = SizeOf(spec.dtype);
    made.offset = offset;
    offset += RoundUp64(static_cast<size_t>(spec.shape.elements()) * made.word);
    return made;
  };
  std::vector<NchwImage> images;
  for (size_t i = 0; i < image_inputs.size(); ++i) images.push_back(image(inputs[i], image_inputs[i]));
  const NchwImage result = image(output, image_output);
  const size_t inner_scratch = RoundUp64(nhwc.scratch_bytes);
  Prepared prepared;
  prepared.kernel = std::make_unique<NchwKernel>(std::move(nhwc.kernel), std::move(images), result, inner_scratch);
  prepared.scratch_bytes = inner_scratch + offset;
  prepared.implementation = nhwc.implementation + ", transposed";
  prepared.flops = nhwc.flops;
  return prepared;
}

}  // namespace rivulet
