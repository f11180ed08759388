// loop/LAYER/TIMExBATCHxUNITS: forward and backward pass of a recurrent layer written as a While over lists. `fused_us`
// is the time of the fused op in the same program, `ratio` the loop's time relative to it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <limits>

#include "engine/compile/compile.h"
#include "engine/gradients/gradients.h"
#include "engine/program/program.h"
#include "tests/bench/kernel_run.h"
#include "tests/testing/loop_rnn.h"

namespace rivulet::bench {
namespace {

using testing::RnnLayer;

constexpr int32_t kTime = 20, kUnits = 64;
constexpr int64_t kBatch = 10, kFeatures = 64;

struct LoopStep {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  AlignedBuffer arena;
  std::vector<Tensor> inputs, outputs;
  std::vector<TensorView> feeds, fetches;

  static StatusOr<std::unique_ptr<LoopStep>> Create(RnnLayer layer, bool fused) {
    const int64_t gates = layer == RnnLayer::kLstm ? 4 : layer == RnnLayer::kGru ? 3 : 1;
    Graph graph;
    const Scope scope(graph);
    Signature signature;
    auto step = std::make_unique<LoopStep>();
    const auto feed = [&](const std::string& name, Shape shape) {
      signature.feeds.push_back({name, {DType::kFloat32, shape}});
      step->inputs.emplace_back(DType::kFloat32, shape);
      std::ranges::fill(step->inputs.back().flat<float>(), 0.01f);
      return scope.Placeholder(name, DType::kFloat32, shape);
    };
    testing::RnnInputs in;
    in.x = feed("x", {kTime, kBatch, kFeatures});
    in.kernel = feed("kernel", {kFeatures, gates * kUnits});
    in.recurrent = feed("recurrent", {kUnits, gates * kUnits});
    in.bias = feed("bias", {gates * kUnits});
    std::vector<int32_t> lengths(kBatch, kTime);
    in.lengths = scope.Const(Tensor::Of<int32_t>({kBatch}, std::span<const int32_t>(lengths)));
    const Output y =
        fused ? testing::FusedLayer(scope, layer, in) : testing::LoopLayer(scope, layer, in, kTime, kBatch, kUnits);
    const Output axes = scope.Const(Tensor::Of<int32_t>({3}, {0, 1, 2}));
    const Output loss = scope.Op("Sum", {scope.Op("Square", {y}), axes});
    RIVULET_RETURN_IF_ERROR(scope.status());
    RIVULET_ASSIGN_OR_RETURN(const auto gradients,
                             ComputeGradients(graph, loss, std::vector{in.x, in.kernel, in.recurrent, in.bias}));
    for (const Output& gradient : gradients) signature.fetches.push_back(gradient.name());
    RIVULET_ASSIGN_OR_RETURN(step->program, CompileProgram(graph, signature));
    RIVULET_ASSIGN_OR_RETURN(step->instance, step->program->Instantiate());
    step->arena = AlignedBuffer(step->program->memory().arena_bytes);
    for (const TensorSpec& spec : step->program->fetch_specs()) step->outputs.emplace_back(spec.dtype, spec.shape);
    for (Tensor& tensor : step->inputs) step->feeds.push_back(tensor.view());
    for (Tensor& tensor : step->outputs) step->fetches.push_back(tensor.view());
    return step;
  }

  Status Run() {
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    return instance->Run(bindings);
  }
};

void BenchLoop(benchmark::State& state, RnnLayer layer) {
  EnterWorkerThread();
  auto loop = LoopStep::Create(layer, false), fused = LoopStep::Create(layer, true);
  if (!loop.ok()) return state.SkipWithError(std::string(Message(loop.status())).c_str());
  if (!fused.ok()) return state.SkipWithError(std::string(Message(fused.status())).c_str());
  double best = std::numeric_limits<double>::max(), best_fused = best;
  const auto time = [&](LoopStep& step, double& shortest) {
    const double start = ThreadSeconds();
    const Status status = step.Run();
    shortest = std::min(shortest, ThreadSeconds() - start);
    return status;
  };
  for (auto _ : state) {
    const Status status = time(**loop, best);
    if (!status.ok()) return state.SkipWithError(std::string(Message(status)).c_str());
    state.PauseTiming();
    const Status other = time(**fused, best_fused);
    if (!other.ok()) return state.SkipWithError(std::string(Message(other)).c_str());
    state.ResumeTiming();
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["fused_us"] = best_fused * 1e6;
  state.counters["ratio"] = best / best_fused;
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const auto& [name, layer] : {std::pair("SimpleRNN", RnnLayer::kSimpleRnn), std::pair("GRU", RnnLayer::kGru),
                                    std::pair("LSTM", RnnLayer::kLstm)})
    benchmark::RegisterBenchmark(fmt::format("loop/{}/{}x{}x{}", name, kTime, kBatch, kUnits).c_str(),
                                 [layer = layer](benchmark::State& state) { BenchLoop(state, layer); });
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
