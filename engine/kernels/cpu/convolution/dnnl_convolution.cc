#include "engine/kernels/cpu/convolution/dnnl_convolution.h"

#include "engine/kernels/cpu/product/dnnl_primitives.h"

namespace rivulet {
namespace onednn {
namespace {

// With one channel NHWC and NCHW have the same bytes, and the library has fast code only for NCHW.
memory::desc Image(Type type, int64_t batch, int64_t channels, int64_t height, int64_t width, bool nchw = false) {
  return {{batch, channels, height, width}, type, channels == 1 || nchw ? Tag::nchw : Tag::nhwc};
}

// The descriptors of one convolution.
struct Convolution {
  Convolution(const Window& w, Type type)
      : strides{w.stride_height, w.stride_width},
        dilations{w.dilation_height - 1, w.dilation_width - 1},
        before{w.pad_top, w.pad_left},
        after{w.pad_bottom, w.pad_right},
        image(Image(type, w.batch, w.in_channels, w.in_height, w.in_width)),
        out(Image(type, w.batch, w.out_channels, w.out_height, w.out_width)),
        image_given(Image(type, w.batch, w.in_channels, w.in_height, w.in_width, w.nchw)),
        out_given(Image(type, w.batch, w.out_channels, w.out_height, w.out_width, w.nchw)) {
    if (w.groups == 1) {
      const memory::dims dims = {w.out_channels, w.in_channels, w.height, w.width};
      filter = {dims, type, Tag::hwio};
      any_filter = {dims, type, Tag::any};
    } else {
      const memory::dims dims = {w.groups, w.group_out(), w.group_in(), w.height, w.width};
      filter = {dims, type, Tag::hwigo};
      any_filter = {dims, type, Tag::any};
    }
  }
  dnnl::convolution_forward::primitive_desc Forward(const dnnl::primitive_attr& attributes) const {
    return {{dnnl::prop_kind::forward_training, kAlgorithm, image, any_filter, out, strides, dilations, before, after},
            attributes,
            Engine()};
  }
  dnnl::convolution_backward_data::primitive_desc BackwardInput(const dnnl::primitive_attr& attributes) const {
    return {{kAlgorithm, image, any_filter, out, strides, dilations, before, after},
            attributes,
            Engine(),
            Forward(attributes)};
  }
  dnnl::convolution_backward_weights::primitive_desc BackwardFilter(const dnnl::primitive_attr& attributes) const {
    return {{kAlgorithm, image, any_filter, out, strides, dilations, before, after},
            attributes,
            Engine(),
            Forward(attributes)};
  }

  static constexpr dnnl::algorithm kAlgorithm = dnnl::algorithm::convolution_direct;
  memory::dims strides, dilations, before, after;
  memory::desc image, out;              // as computed: NHWC
  memory::desc image_given, out_given;  // in the layout of the node's tensors
  memory::desc filter, any_filter;
};

}  // namespace
}  // namespace onednn

std::optional<Prepared> DnnlConvolution(ConvDirection direction, const Window& w, DType dtype) try {
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return std::nullopt;
  // The library uses 32-bit sizes internally.
  for (int64_t size : {w.in_height, w.in_width, w.out_height, w.out_width, w.stride_height, w.stride_width,
                       w.height * w.dilation_height, w.width * w.dilation_width, w.pad_top, w.pad_bottom, w.pad_left,
                       w.pad_right, w.in_channels, w.out_channels, w.batch})
    if (size > (int64_t{1} << 24)) return std::nullopt;
  const onednn::Convolution convolution(w, onednn::TypeOf(dtype));
  onednn::Builder builder;
  std::string implementation;
  switch (direction) {
    case ConvDirection::kForward: {
      const auto descriptor = convolution.Forward(builder.attributes());
      implementation = descriptor.impl_info_str();
      if (onednn::IsSlow(implementation, dtype)) return std::nullopt;
      const size_t image = builder.Reordered(builder.Input(0, convolution.image_given), convolution.image);
      const size_t weights = builder.Reordered(builder.Input(1, convolution.filter), descriptor.weights_desc());
      const size_t result = builder.Output(0, convolution.out_given);
      const size_t out = convolution.out_given == convolution.out ? result : builder.Scratch(convolution.out);
      builder.Execute<dnnl::convolution_forward>(
          descriptor, {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out}});
      if (out != result) builder.Reorder(out, result);
      break;
    }
    case ConvDirection::kBackwardInput: {
      const auto descriptor = convolution.BackwardInput(builder.attributes());
      implementation = descriptor.impl_info_str();
      if (onednn::IsSlow(implementation, dtype)) return std::nullopt;
      const size_t weights = builder.Reordered(builder.Input(0, convolution.filter), descriptor.weights_desc());
      const size_t gradient = builder.Reordered(builder.Input(1, convolution.out_given), convolution.out);
      const size_t result = builder.Output(0, convolution.image_given);
      const size_t image = convolution.image_given == convolution.image ? result : builder.Scratch(convolution.image);
      builder.Execute<dnnl::convolution_backward_data>(
          descriptor, {{DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, image}});
      if (image != result) builder.Reorder(image, result);
      break;
    }
    case ConvDirection::kBackwardFilter: {
      const auto descriptor = convolution.BackwardFilter(builder.attributes());
      implementation = descriptor.impl_info_str();
      if (onednn::IsSlow(implementation, dtype)) return std::nullopt;
      const size_t image = builder.Reordered(builder.Input(0, convolution.image_given), convolution.image);
      const size_t gradient = builder.Reordered(builder.Input(1, convolution.out_given), convolution.out);
      const size_t result = builder.Output(0, convolution.filter);
      const dnnl::memory::desc own = descriptor.diff_weights_desc();
      const size_t weights = own == convolution.filter ? result : builder.Scratch(own);
      builder.Execute<dnnl::convolution_backward_weights>(
          descriptor, {{DNNL_ARG_SRC, image}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, weights}});
      if (weights != result) builder.Reorder(weights, result);
      break;
    }
  }
  Prepared prepared = std::move(builder).Build(implementation, 2 * w.multiply_adds());
  if (w.nchw && (!(convolution.image_given == convolution.image) || !(convolution.out_given == convolution.out)))
    prepared.implementation += ", transposed";
  return prepared;
} catch (const dnnl::error&) {
  return std::nullopt;  // this CPU lacks the primitive
}

}  // namespace rivulet
