// passes/PRESET/10: the passes over a client's training step, without kernels and the memory plan, which compile/…
// includes.
#include <benchmark/benchmark.h>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/compile/optimize.h"
#include "tests/bench/bench_plan.h"

namespace rivulet::bench {
namespace {

void BenchPasses(benchmark::State& state, const std::string& preset) {
  const auto plan = PresetPlan(preset);
  if (!plan.ok()) return state.SkipWithError(std::string(plan.status().message()).c_str());
  const auto step = PassPrograms(*plan).DescribeStep(TaskKind::kTrain, 0, 10);
  if (!step.ok()) return state.SkipWithError(std::string(step.status().message()).c_str());
  size_t nodes = 0;
  for (auto _ : state) {
    const auto optimized = OptimizeGraph(step->graph, step->signature, CompileOptions());
    if (!optimized.ok()) return state.SkipWithError(std::string(optimized.status().message()).c_str());
    nodes = optimized->graph.nodes().size();
  }
  if (nodes >= step->graph.nodes().size()) return state.SkipWithError("the passes left everything as it was");
  state.counters["nodes_before"] = static_cast<double>(step->graph.nodes().size());
  state.counters["nodes_after"] = static_cast<double>(nodes);
}

const bool passes_registered = [] {
  for (const std::string preset : {"mnist_cnn", "resnet20", "logistic_regression"}) {
    benchmark::RegisterBenchmark(("passes/" + preset + "/10").c_str(), [preset](benchmark::State& state) {
      BenchPasses(state, preset);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
