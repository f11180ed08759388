#include "engine/onnx/run.h"

#include "engine/compile/compile.h"
#include "engine/program/program.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet::onnx {

StatusOr<std::vector<Tensor>> RunOnce(const Graph& graph, const NamedTensors& feeds,
                                      const std::vector<std::string>& fetches, const NamedTensors& variables,
                                      const KernelPolicy& kernels, const RunLimits& limits) {
  EnterWorkerThread();
  Signature signature;
  std::vector<TensorView> feed_views, fetch_views;
  for (const auto& [name, tensor] : feeds) {
    signature.feeds.push_back({name, {tensor.dtype(), tensor.shape()}});
    feed_views.push_back(tensor.view());
  }
  signature.fetches = fetches;
  std::vector<Buffer> buffers;
  for (const auto& [name, tensor] : variables) {
    signature.variables.push_back(
        {name, static_cast<int>(buffers.size()), 0, TensorSpec{tensor.dtype(), tensor.shape()}});
    buffers.push_back({tensor.view().data, tensor.dtype(), 0});
  }
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(graph, signature, {kernels}));
  size_t bytes = program->memory().arena_bytes + program->memory().constant_bytes;
  for (const TensorSpec& spec : program->fetch_specs()) bytes += TensorBytes(spec);
  if (bytes > limits.bytes) return ResourceExhausted("a run takes {} bytes, more than {}", bytes, limits.bytes);
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance, program->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(program->memory().arena_bytes));
  std::vector<Tensor> results;
  for (const TensorSpec& spec : program->fetch_specs()) {
    RIVULET_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(spec.dtype, spec.shape));
    results.push_back(std::move(result));
    fetch_views.push_back(results.back().view());
  }
  const StreamKey rng;
  const uint64_t step = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = buffers;
  bindings.feeds = feed_views;
  bindings.fetches = fetch_views;
  bindings.rng = {&rng, 1};
  bindings.step = {&step, 1};
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  return results;
}

}  // namespace rivulet::onnx
