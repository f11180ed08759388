// Adapters of random.cu.
#include "engine/kernels/cuda/random.h"

#include <cstddef>

#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

static_assert(sizeof(Stream) == sizeof(StreamKey) && offsetof(Stream, ordinal) == offsetof(StreamKey, ordinal) &&
              offsetof(Stream, round) == offsetof(StreamKey, round) &&
              offsetof(Stream, purpose) == offsetof(StreamKey, purpose));

StatusOr<Prepared> PrepareDraw(const NodeView& node, std::string_view kernel) {
  DrawArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  arguments.op = static_cast<uint32_t>(node.op_index);
  const bool wide = node.outputs[0].dtype == DType::kFloat64;
  return Launching([arguments, name = fmt::format("{}_{}", kernel, wide ? kTypeText<double> : kTypeText<float>)](
                       const GpuContext& c) {
    if (c.draws.streams == nullptr || c.draws.steps == nullptr)
      return FailedPrecondition("a random op runs without random streams; bind one for each lane");
    DrawArguments a = arguments;
    a.y = OutputOf<void>(c, 0);
    a.streams = reinterpret_cast<const Stream*>(c.draws.streams);
    a.steps = c.draws.steps;
    return Put(c, name, a);
  });
}

StatusOr<Prepared> PrepareUniform(const NodeView& node, const KernelPolicy&) {
  return PrepareDraw(node, "draw_uniform");
}
StatusOr<Prepared> PrepareNormal(const NodeView& node, const KernelPolicy&) { return PrepareDraw(node, "draw_normal"); }
StatusOr<Prepared> PrepareTruncatedNormal(const NodeView& node, const KernelPolicy&) {
  return PrepareDraw(node, "draw_truncated_normal");
}

RIVULET_KERNEL("RandomUniform", Device::kCuda, void, PrepareUniform);
RIVULET_KERNEL("RandomStandardNormal", Device::kCuda, void, PrepareNormal);
RIVULET_KERNEL("TruncatedNormal", Device::kCuda, void, PrepareTruncatedNormal);

}  // namespace
}  // namespace rivulet::gpu
