#include "engine/kernels/cpu/dnnl_shim.h"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>

#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

const dnnl::engine& Engine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// One execution of a primitive: which memory goes to which argument.
struct Argument {
  int name;      // DNNL_ARG_…
  size_t place;  // index into the kernel's memories
};
struct Execution {
  dnnl::primitive primitive;
  std::vector<Argument> arguments;
};

// Where a memory's bytes are in a run.
struct DnnlPlace {
  enum class From { kInput, kOutput, kScratch };
  memory::desc desc;
  From from;
  size_t index;  // of the input or output, or offset into the scratch
};

// The library's argument objects of one instance, whose handles are moved when addresses change.
class DnnlState final : public KernelState {
 public:
  DnnlState(const std::vector<DnnlPlace>& places, const std::vector<Execution>& executions) : stream_(Engine()) {
    for (const DnnlPlace& place : places) memories_.push_back(memory(place.desc, Engine(), DNNL_MEMORY_NONE));
    handles_.resize(places.size(), nullptr);
    for (const Execution& execution : executions) {
      std::vector<dnnl_exec_arg_t> arguments;
      for (const Argument& argument : execution.arguments) {
        arguments.push_back({argument.name, memories_[argument.place].get()});
      }
      arguments_.push_back(std::move(arguments));
    }
  }
  dnnl_status_t Bind(size_t place, std::byte* address) {
    if (handles_[place] == address) return dnnl_success;
    handles_[place] = address;
    return dnnl_memory_set_data_handle(memories_[place].get(), address);
  }
  dnnl_stream_t stream() const { return stream_.get(); }
  const std::vector<dnnl_exec_arg_t>& arguments(size_t execution) const { return arguments_[execution]; }

 private:
  dnnl::stream stream_;
  std::vector<memory> memories_;
  std::vector<std::byte*> handles_;
  std::vector<std::vector<dnnl_exec_arg_t>> arguments_;
};

class DnnlKernel final : public Kernel {
 public:
  DnnlKernel(std::vector<DnnlPlace> places, std::vector<Execution> executions)
      : places_(std::move(places)), executions_(std::move(executions)) {}

  Status Run(const KernelContext& context) const override {
    DnnlState& state = static_cast<DnnlState&>(*context.state);
    for (size_t i = 0; i < places_.size(); ++i) {
      const DnnlPlace& place = places_[i];
      std::byte* address = place.from == DnnlPlace::From::kInput    ? context.inputs[place.index]
                           : place.from == DnnlPlace::From::kOutput ? context.outputs[place.index]
                                                                    : context.scratch + place.index;
      if (state.Bind(i, address) != dnnl_success) return Internal("oneDNN refused an address");
    }
    for (size_t i = 0; i < executions_.size(); ++i) {
      const std::vector<dnnl_exec_arg_t>& arguments = state.arguments(i);
      const dnnl_status_t status = dnnl_primitive_execute(executions_[i].primitive.get(), state.stream(),
                                                          static_cast<int>(arguments.size()), arguments.data());
      if (status != dnnl_success) return Internal("oneDNN failed with status {}", static_cast<int>(status));
    }
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override { return std::make_unique<DnnlState>(places_, executions_); }

 private:
  std::vector<DnnlPlace> places_;
  std::vector<Execution> executions_;
};

class Builder {
 public:
  Builder() { attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user); }
  const dnnl::primitive_attr& attributes() const { return attributes_; }
  dnnl::primitive_attr& attributes() { return attributes_; }

  size_t Input(size_t index, const memory::desc& desc) { return Add({desc, DnnlPlace::From::kInput, index}); }
  size_t Output(size_t index, const memory::desc& desc) { return Add({desc, DnnlPlace::From::kOutput, index}); }
  size_t Scratch(const memory::desc& desc) {
    const size_t offset = scratch_bytes_;
    scratch_bytes_ += RoundUp64(desc.get_size());
    return Add({desc, DnnlPlace::From::kScratch, offset});
  }
  template <typename Primitive, typename Descriptor>
  void Execute(const Descriptor& descriptor, std::vector<Argument> arguments) {
    const memory::desc scratchpad = descriptor.scratchpad_desc();
    if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, Scratch(scratchpad)});
    executions_.push_back({Primitive(descriptor), std::move(arguments)});
  }
  // `place` as `wanted`: itself, or a copy in scratch.
  size_t Reordered(size_t place, const memory::desc& wanted) {
    if (places_[place].desc == wanted) return place;
    const size_t copy = Scratch(wanted);
    Reorder(place, copy);
    return copy;
  }
  void Reorder(size_t from, size_t to) {
    const dnnl::reorder::primitive_desc descriptor(Engine(), places_[from].desc, Engine(), places_[to].desc,
                                                   attributes_);
    Execute<dnnl::reorder>(descriptor, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  Prepared Build(const std::string& implementation, double flops) && {
    Prepared prepared;
    prepared.scratch_bytes = scratch_bytes_;
    prepared.kernel = std::make_unique<DnnlKernel>(std::move(places_), std::move(executions_));
    prepared.implementation = "dnnl " + implementation;
    prepared.flops = flops;
    return prepared;
  }

 private:
  size_t Add(DnnlPlace place) {
    places_.push_back(std::move(place));
    return places_.size() - 1;
  }
  dnnl::primitive_attr attributes_;
  std::vector<DnnlPlace> places_;
  std::vector<Execution> executions_;
  size_t scratch_bytes_ = 0;
};

using Type = memory::data_type;
Type TypeOf(DType dtype) { return dtype == DType::kBFloat16 ? Type::bf16 : Type::f32; }

// One channel: NHWC and NCHW are the same bytes, and the library has fast code only for what it calls NCHW.
memory::desc Image(Type type, int64_t batch, int64_t channels, int64_t height, int64_t width, bool nchw = false) {
  return {{batch, channels, height, width}, type, channels == 1 || nchw ? Tag::nchw : Tag::nhwc};
}

bool Contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// The table of CPU kinds. bfloat16 pays where the matrix unit multiplies it (AMX), and where the vector instructions
// that do so run at full rate: AMD's. Intel's cores without AMX take longer than for float32, and without any such
// instruction the library converts element by element.
bool IsSlow(const std::string& implementation, DType dtype) {
  if (Contains(implementation, "ref")) return true;
  if (dtype == DType::kFloat32 || Contains(implementation, "amx")) return false;
  return !Contains(implementation, "avx512_core_bf16") || !__builtin_cpu_is("amd");
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
  memory::desc image_given, out_given;  // as the node's tensors lie
  memory::desc filter, any_filter;
};

}  // namespace

std::optional<Prepared> DnnlConvolution(ConvDirection direction, const Window& w, DType dtype) try {
  if (w.in_elements() == 0 || w.out_elements() == 0 || w.filter_elements() == 0) return std::nullopt;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return std::nullopt;
  // The library counts in 32 bits inside.
  for (int64_t size : {w.in_height, w.in_width, w.out_height, w.out_width, w.stride_height, w.stride_width,
                       w.height * w.dilation_height, w.width * w.dilation_width, w.pad_top, w.pad_bottom, w.pad_left,
                       w.pad_right, w.in_channels, w.out_channels, w.batch})
    if (size > (int64_t{1} << 24)) return std::nullopt;
  const Convolution convolution(w, TypeOf(dtype));
  Builder builder;
  std::string implementation;
  switch (direction) {
    case ConvDirection::kForward: {
      const auto descriptor = convolution.Forward(builder.attributes());
      implementation = descriptor.impl_info_str();
      if (IsSlow(implementation, dtype)) return std::nullopt;
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
      if (IsSlow(implementation, dtype)) return std::nullopt;
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
      if (IsSlow(implementation, dtype)) return std::nullopt;
      const size_t image = builder.Reordered(builder.Input(0, convolution.image_given), convolution.image);
      const size_t gradient = builder.Reordered(builder.Input(1, convolution.out_given), convolution.out);
      const size_t result = builder.Output(0, convolution.filter);
      const memory::desc own = descriptor.diff_weights_desc();
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
  return std::nullopt;  // no such primitive on this CPU
}

std::optional<Prepared> DnnlMatMul(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                                   DType dtype) try {
  if (m == 0 || n == 0 || k == 0) return std::nullopt;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return std::nullopt;
  const Type type = TypeOf(dtype);
  const memory::desc a({m, k}, type, transpose_a ? Tag::ba : Tag::ab), b({k, n}, type, transpose_b ? Tag::ba : Tag::ab);
  const memory::desc c({m, n}, type, Tag::ab);
  Builder builder;
  const dnnl::matmul::primitive_desc descriptor(dnnl::matmul::desc(a, b, c), builder.attributes(), Engine());
  if (IsSlow(descriptor.impl_info_str(), dtype)) return std::nullopt;
  const size_t left = builder.Input(0, a), right = builder.Input(1, b), result = builder.Output(0, c);
  builder.Execute<dnnl::matmul>(descriptor, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}});
  return std::move(builder).Build(descriptor.impl_info_str(),
                                  2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
} catch (const dnnl::error&) {
  return std::nullopt;
}

}  // namespace rivulet
