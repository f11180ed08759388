#include "engine/profile/op_bench_gpu.h"

#include <algorithm>
#include <cstring>

#include "engine/compile/compile_gpu.h"
#include "engine/profile/gpu_timer.h"
#include "engine/profile/gpu_trial.h"
#include "engine/profile/instruction_costs.h"
#include "engine/profile/op_bench_values.h"

namespace rivulet {
namespace {

Tensor MadeUp(const TensorSpec& spec, size_t seed) {
  Tensor tensor(spec.dtype, spec.shape);
  MakeUpValues(spec.dtype, tensor.data(), spec.shape.elements(), seed);
  return tensor;
}

std::vector<TensorView> ViewsOf(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

// What the op itself does; what brings its results to the fetches is not counted.
void AddCosts(const GpuProgram& program, const std::string& node, int lanes, OpTiming& timing) {
  const std::vector<InstructionCost> costs = CostsOf(program);
  for (size_t i = 0; i < costs.size(); ++i) {
    const Instruction& instruction = program.instructions()[i];
    if (instruction.node != node || instruction.implementation == "fetch") continue;
    timing.implementation = instruction.implementation;
    timing.flops += lanes * costs[i].flops;
    timing.bytes += lanes * costs[i].bytes;
  }
}

// A lane's results and variables, as floats.
StatusOr<std::vector<float>> ResultsOf(GpuTrial& run, const OpBenchGraph& bench, int lane) {
  std::vector<Tensor> fetched;
  for (const TensorSpec& spec : run.program().fetch_specs()) fetched.emplace_back(spec.dtype, spec.shape);
  RIVULET_RETURN_IF_ERROR(run.Fetch(lane, ViewsOf(fetched)));
  for (size_t i = 0; i < bench.variables.size(); ++i) {
    Tensor& variable = fetched.emplace_back(bench.variables[i].dtype, bench.variables[i].shape);
    RIVULET_RETURN_IF_ERROR(run.FetchBuffer(lane, i, {variable.data(), variable.bytes()}));
  }
  std::vector<float> results;
  for (const Tensor& tensor : fetched) AppendFloats(tensor.view(), results);
  return results;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

StatusOr<OpTiming> TimeOnGpu(const OpBenchGraph& bench, const std::shared_ptr<GpuDevice>& device, int lanes) {
  OpTiming timing;
  timing.algorithm = lanes == 1 ? "gpu" : fmt::format("gpu, {} lanes", lanes);
  RIVULET_ASSIGN_OR_RETURN(const auto program,
                           CompileForGpu(bench.graph, OpBenchSignature(bench), OpBenchCompileOptions()));
  AddCosts(*program, bench.node->name(), lanes, timing);
  if (timing.implementation.empty()) {
    timing.skipped = "a program carries it out without a kernel: it is a view, or its value is known before the run";
    return timing;
  }
  std::vector<Tensor> feeds, variables;
  for (const FeedSpec& feed : program->signature().feeds) feeds.push_back(MadeUp(feed.spec, feeds.size()));
  std::vector<std::span<const std::byte>> buffers;
  for (const TensorSpec& spec : bench.variables) variables.push_back(MadeUp(spec, kVariableSeed + variables.size()));
  for (const Tensor& variable : variables) buffers.push_back({variable.data(), variable.bytes()});
  RIVULET_ASSIGN_OR_RETURN(const auto run, GpuTrial::Create(program, device, buffers, lanes));
  RIVULET_RETURN_IF_ERROR(run->Feed(ViewsOf(feeds)));
  RIVULET_ASSIGN_OR_RETURN(GpuTimer timer, GpuTimer::Create(*device));
  // What the first run gives: a variable goes on from there.
  RIVULET_RETURN_IF_ERROR(run->Put(timer.stream()));
  RIVULET_RETURN_IF_ERROR(timer.stream().Wait());
  RIVULET_ASSIGN_OR_RETURN(timing.outputs, ResultsOf(*run, bench, 0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<float> last, ResultsOf(*run, bench, lanes - 1));
  if (!SameBits(timing.outputs, last)) {
    return Internal("lanes 0 and {} were given the same and differ; the kernel of {} is wrong", lanes - 1,
                    bench.node->type());
  }
  RIVULET_ASSIGN_OR_RETURN(const GpuTiming measured,
                           timer.Measure([&](GpuStream& stream) { return run->Put(stream); }));
  timing.runs = measured.runs;
  timing.seconds = measured.median_seconds;
  return timing;
}

}  // namespace rivulet
