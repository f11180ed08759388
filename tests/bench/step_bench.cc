// step/PRESET/BATCH: one training step (forward, backward, SGD) of a preset on one thread, as a client runs it.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "client/program_cache.h"
#include "client/trainer.h"
#include "federated/weights/model.h"
#include "tests/bench/bench_plan.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

struct Step {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Instance> instance;
  std::vector<AlignedBuffer> memory;
  AlignedBuffer arena;
  std::vector<Buffer> buffers;
  std::vector<Tensor> feed_tensors;
  std::vector<TensorView> feeds, fetches;
  float loss = 0;
  StreamKey rng;
  uint64_t index = 0;
  Bindings bindings;
};

StatusOr<std::unique_ptr<Step>> NewStep(const std::string& preset, int64_t batch) {
  EnterWorkerThread();
  RIVULET_ASSIGN_OR_RETURN(const auto plan, PresetPlan(preset));
  const auto cache = NewProgramCache(plan);
  auto step = std::make_unique<Step>();
  RIVULET_ASSIGN_OR_RETURN(step->program, cache->Step(batch));
  RIVULET_ASSIGN_OR_RETURN(step->instance, step->program->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Model> model, InitialModel(*plan, 1));
  for (int i = 0; i < cache->buffers(); ++i) step->memory.emplace_back(cache->buffer_bytes(i));
  std::memcpy(step->memory[kParamsBuffer].data(), model->arena().data(), model->arena().size());
  for (AlignedBuffer& buffer : step->memory) step->buffers.push_back({buffer.data()});
  for (const FeedSpec& feed : step->program->signature().feeds) {
    Tensor tensor(feed.spec.dtype, feed.spec.shape);
    if (feed.spec.dtype == DType::kFloat32) {
      for (size_t i = 0; float& x : tensor.flat<float>()) x = static_cast<float>((i++ * 37) % 256) / 255;
    } else {
      for (int64_t i = 0; int64_t & label : tensor.flat<int64_t>()) label = i++ % 10;
    }
    step->feed_tensors.push_back(std::move(tensor));
    step->feeds.push_back(step->feed_tensors.back().view());
  }
  step->fetches.push_back({reinterpret_cast<std::byte*>(&step->loss), DType::kFloat32, Shape{}});
  step->arena = AlignedBuffer(step->program->memory().arena_bytes);
  step->bindings.arena = step->arena.data();
  step->bindings.buffers = step->buffers;
  step->bindings.feeds = step->feeds;
  step->bindings.fetches = step->fetches;
  step->bindings.rng = {&step->rng, 1};
  step->bindings.step = {&step->index, 1};
  return step;
}

void BenchStep(benchmark::State& state, const std::string& preset, int64_t batch) {
  const auto made = NewStep(preset, batch);
  if (!made.ok()) return state.SkipWithError(std::string(made.status().message()).c_str());
  Step& step = **made;
  double peak = PeakGflops(), best = std::numeric_limits<double>::max(), first_loss = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = step.instance->Run(step.bindings);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    if (step.index++ == 0) first_loss = step.loss;
  }
  if (!std::isfinite(step.loss) || (step.index > 10 && step.loss >= first_loss)) {
    return state.SkipWithError("the loss on one batch did not fall");
  }
  peak = std::max(peak, PeakGflops());
  const double steps = static_cast<double>(state.iterations());
  state.SetItemsProcessed(state.iterations());
  state.counters["gflops"] = benchmark::Counter(step.program->flops() * steps / 1e9, benchmark::Counter::kIsRate);
  state.counters["peak_share"] =
      benchmark::Counter(step.program->flops() * steps / 1e9 / peak, benchmark::Counter::kIsRate);
  state.counters["peak_gflops"] = peak;
  state.counters["best_us"] = best * 1e6;
}

const bool registered = [] {
  for (const std::string preset : {"mnist_cnn", "mlp", "logistic_regression"}) {
    benchmark::RegisterBenchmark(("step/" + preset + "/10").c_str(), [preset](benchmark::State& state) {
      BenchStep(state, preset, 10);
    })->Unit(preset == "mnist_cnn" ? benchmark::kMillisecond : benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
