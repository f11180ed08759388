#include "tests/gpu_kernels/recorded_shapes.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rivulet {
namespace {

using gpu::ConvolutionArguments;
using gpu::ConvolutionDirection;
using gpu::ProductArguments;

// Where kernels note what they are asked for; a table of C functions knows no other place.
RecordedShapes* recorded = nullptr;

ProductArguments WithoutPlaces(ProductArguments p) {
  const bool bias = p.epilogue.bias.data != nullptr;
  p.a = p.b = {};
  p.c = {};
  p.epilogue.bias = {};
  // Only that there is one.
  if (bias) p.epilogue.bias.lane_stride = 1;
  p.chunks.partial = {};
  p.lanes = {};
  return p;
}
ConvolutionArguments WithoutPlaces(ConvolutionArguments c) {
  c.a = c.b = {};
  c.c = {};
  c.epilogue = {};
  c.chunks.partial = {};
  c.lanes = {};
  return c;
}

template <typename Arguments>
bool IsSame(const Arguments& a, const Arguments& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

int NoteProduct(void*, const void* arguments) {
  const ProductArguments p = WithoutPlaces(*static_cast<const ProductArguments*>(arguments));
  if (std::ranges::none_of(recorded->products, [&](const auto& known) { return IsSame(known, p); }))
    recorded->products.push_back(p);
  return 0;
}
template <ConvolutionDirection kDirection>
int NoteConvolution(void*, const void* arguments) {
  const ConvolutionArguments c = WithoutPlaces(*static_cast<const ConvolutionArguments*>(arguments));
  const auto is_it = [&](const RecordedConvolution& known) {
    return known.direction == kDirection && IsSame(known.arguments, c);
  };
  if (std::ranges::none_of(recorded->convolutions, is_it)) recorded->convolutions.push_back({c, kDirection});
  return 0;
}
int NoteNothing(void*, const void*) { return 0; }

using Launch = int (*)(void*, const void*);
Launch NoterOf(std::string_view kernel) {
  if (kernel.starts_with("product_float_")) return NoteProduct;
  if (kernel.starts_with("convolution_float_")) return NoteConvolution<ConvolutionDirection::kForward>;
  if (kernel.starts_with("convolution_input_float_") || kernel.starts_with("convolution_input_dense_float_"))
    return NoteConvolution<ConvolutionDirection::kInput>;
  if (kernel.starts_with("convolution_filter_float_")) return NoteConvolution<ConvolutionDirection::kFilter>;
  return NoteNothing;
}

}  // namespace

Status RecordShapes(const RivuletGpuApi& backend, const GpuProgram& program, RecordedShapes& shapes) {
  std::vector<RivuletGpuKernel> kernels(backend.kernels, backend.kernels + backend.kernel_count);
  for (RivuletGpuKernel& kernel : kernels) kernel.launch = NoterOf(kernel.name);
  RivuletGpuApi noting = backend;
  noting.kernels = kernels.data();
  RIVULET_ASSIGN_OR_RETURN(const auto device, GpuDevice::Open(noting, 0));
  RIVULET_ASSIGN_OR_RETURN(const auto stream, device->NewStream());
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program.Instantiate(*device));
  // Nobody reads or writes there. Two lanes, since one is copied without a kernel.
  alignas(64) static std::byte nowhere[64];
  const GpuOperand operand{nowhere, size_t{1} << 40};
  const std::vector<GpuOperand> buffers(program.uses_buffer().size(), operand);
  const std::vector<GpuOperand> feeds(program.signature().feeds.size(), operand);
  const std::vector<GpuOperand> fetches(program.signature().fetches.size(), operand);
  const StreamKey draw{};
  const uint64_t step = 0;
  GpuBindings bindings;
  bindings.arena = operand;
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.lanes = {2, nullptr};
  bindings.draws = {&draw, &step};
  recorded = &shapes;
  const Status status = instance->Enqueue(*stream, bindings);
  recorded = nullptr;
  RIVULET_RETURN_IF_ERROR(status);
  return stream->Wait();
}

}  // namespace rivulet
