// step/PRESET/BATCH: one training step (forward, backward, SGD) of a preset on one thread, as a client runs it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "federated/plan/example_noise.h"
#include "federated/privacy/integer_noise.h"
#include "federated/privacy/sum_noise.h"
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

// Of one program of `plan`, bound to memory of its own. A float32 scalar is fetched where it has one.
StatusOr<std::unique_ptr<Step>> NewStepOf(const std::shared_ptr<const Plan>& plan, const BufferTable& table,
                                          std::shared_ptr<const Program> program) {
  auto step = std::make_unique<Step>();
  step->program = std::move(program);
  RIVULET_ASSIGN_OR_RETURN(step->instance, step->program->Instantiate());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Model> model, InitialModel(*plan, 1));
  for (int i = 0; i < table.size(); ++i) step->memory.emplace_back(table.bytes(i));
  std::memcpy(step->memory[BufferTable::kParams].data(), model->arena().data(), model->arena().size());
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
  if (!step->program->signature().fetches.empty()) {
    step->fetches.push_back({reinterpret_cast<std::byte*>(&step->loss), DType::kFloat32, Shape{}});
  }
  step->arena = AlignedBuffer(step->program->memory().arena_bytes);
  step->bindings.arena = step->arena.data();
  step->bindings.buffers = step->buffers;
  step->bindings.feeds = step->feeds;
  step->bindings.fetches = step->fetches;
  step->bindings.rng = {&step->rng, 1};
  step->bindings.step = {&step->index, 1};
  return step;
}

StatusOr<std::unique_ptr<Step>> NewStep(const std::string& preset, int64_t batch,
                                        const std::string& precision = "float32",
                                        const std::string& kernels = "native") {
  EnterWorkerThread();
  RIVULET_ASSIGN_OR_RETURN(const auto plan, PresetPlan(preset, precision, kernels));
  PassPrograms programs(plan);
  RIVULET_ASSIGN_OR_RETURN(auto program, programs.Step(TaskKind::kTrain, 0, batch));
  return NewStepOf(plan, programs.buffers(), std::move(program));
}

// example_step/PRESET/64: clipping by example over a plain step, for equal batches. over_plain leaves the noise out,
// which is drawn once a step for any batch; noise_us is its time.
void BenchExampleStep(benchmark::State& state, const std::string& preset, int64_t batch) {
  EnterWorkerThread();
  PrivacyConfig config;
  config.unit = "example";
  config.clip = config.noise = 1;
  const auto plan = PresetPlan(preset, "float32", "native", config, 2 * batch);
  if (!plan.ok()) return state.SkipWithError(std::string(plan.status().message()).c_str());
  if (ExampleRows(2 * batch) != batch) return state.SkipWithError("a program has another number of rows");
  PassPrograms programs(*plan);
  const auto sum = programs.ClippedSum(), rule = programs.Rule();
  if (!sum.ok() || !rule.ok())
    return state.SkipWithError(std::string((sum.ok() ? rule : sum).status().message()).c_str());
  const auto clipped = NewStepOf(*plan, programs.buffers(), *sum), ruled = NewStepOf(*plan, programs.buffers(), *rule);
  const auto plain = NewStep(preset, batch);
  if (!clipped.ok() || !ruled.ok() || !plain.ok()) return state.SkipWithError("a program has no instance");
  for (float& present : (*clipped)->feed_tensors.back().flat<float>()) present = 1;
  const auto seconds = [&](Step& step, double& best) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = step.instance->Run(step.bindings);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  };
  double of_sum = 1e9, of_rule = 1e9, of_plain = 1e9, of_noise = 1e9;
  for (auto _ : state) {
    seconds(**clipped, of_sum);
    seconds(**ruled, of_rule);
    state.PauseTiming();
    seconds(**plain, of_plain);
    state.ResumeTiming();
  }
  const privacy::DiscreteGaussian law(privacy::NoiseScale::AtLeast(0x1p30).value());
  const privacy::NoiseKey key = privacy::SeededKey(1);
  std::vector<int64_t> noise(static_cast<size_t>((*plan)->layout()->parameters()));
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!privacy::DrawNoise(key, law, 0, noise).ok()) return state.SkipWithError("no noise");
    of_noise = std::min(of_noise, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.counters["over_plain"] = (of_sum + of_rule) / of_plain;
  state.counters["plain_us"] = of_plain * 1e6;
  state.counters["best_us"] = (of_sum + of_rule) * 1e6;
  state.counters["noise_us"] = of_noise * 1e6;
}

void BenchStep(benchmark::State& state, const std::string& preset, int64_t batch,
               const std::string& precision = "float32", const std::string& kernels = "native") {
  const auto made = NewStep(preset, batch, precision, kernels);
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

// Compiling mnist_cnn's training program from its plan.
void BenchCompile(benchmark::State& state) {
  EnterWorkerThread();
  const auto plan = PresetPlan("mnist_cnn");
  if (!plan.ok()) return state.SkipWithError("no plan");
  for (auto _ : state) {
    if (!PassPrograms(*plan).Step(TaskKind::kTrain, 0, 10).ok())
      return state.SkipWithError("the step does not compile");
  }
}

// Seconds that each of `threads` threads takes for `steps` steps of its own, all at once.
StatusOr<double> SecondsOf(int threads, int steps) {
  std::vector<std::thread> workers;
  std::vector<Status> statuses(static_cast<size_t>(threads));
  std::vector<double> seconds(static_cast<size_t>(threads));
  std::atomic<int> ready = 0;
  for (size_t i = 0; i < statuses.size(); ++i) {
    workers.emplace_back([&, i] {
      const auto run = [&]() -> Status {
        RIVULET_ASSIGN_OR_RETURN(const auto step, NewStep("mnist_cnn", 10));
        RIVULET_RETURN_IF_ERROR(step->instance->Run(step->bindings));
        ++ready;
        while (ready < threads) std::this_thread::yield();
        const auto start = std::chrono::steady_clock::now();
        for (int n = 0; n < steps; ++n) RIVULET_RETURN_IF_ERROR(step->instance->Run(step->bindings));
        seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return absl::OkStatus();
      };
      statuses[i] = run();
      if (!statuses[i].ok()) ready = threads;
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const Status& status : statuses) RIVULET_RETURN_IF_ERROR(status);
  return *std::max_element(seconds.begin(), seconds.end());
}

// Steps per second of two workers over those of one.
void BenchWorkers(benchmark::State& state) {
  constexpr int kSteps = 100;
  double one = std::numeric_limits<double>::max(), two = one;
  for (auto _ : state) {
    const auto alone = SecondsOf(1, kSteps), both = SecondsOf(2, kSteps);
    if (!alone.ok() || !both.ok()) return state.SkipWithError("a worker failed");
    one = std::min(one, *alone);
    two = std::min(two, *both);
  }
  state.counters["speedup"] = 2 * one / two;
  state.counters["cores"] = std::thread::hardware_concurrency();
}

const bool step_registered = [] {
  const auto unit = [](std::string_view preset) {
    return preset == "mlp" || preset == "logistic_regression" ? benchmark::kMicrosecond : benchmark::kMillisecond;
  };
  for (const char* preset : {"mnist_cnn", "mlp", "logistic_regression", "cifar_cnn", "resnet8"}) {
    benchmark::RegisterBenchmark(fmt::format("step/{}_bf16/10", preset).c_str(), [preset](benchmark::State& state) {
      BenchStep(state, preset, 10, "bfloat16");
    })->Unit(unit(preset));
  }
  benchmark::RegisterBenchmark("step/mnist_cnn_portable/10", [](benchmark::State& state) {
    BenchStep(state, "mnist_cnn", 10, "float32", "portable");
  })->Unit(benchmark::kMillisecond);
  for (const char* preset : {"mlp", "mnist_cnn", "char_lstm", "tiny_transformer"}) {
    benchmark::RegisterBenchmark(fmt::format("example_step/{}/64", preset).c_str(), [preset](benchmark::State& state) {
      BenchExampleStep(state, preset, 64);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("compile/mnist_cnn/10", BenchCompile)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("workers/2", BenchWorkers)->Unit(benchmark::kMillisecond)->Iterations(3);
  const std::pair<const char*, int64_t> presets[] = {
      {"mnist_cnn", 10},    {"mlp", 10},        {"logistic_regression", 10}, {"lenet5", 10},  {"lenet5", 64},
      {"cifar_cnn", 10},    {"emnist_cnn", 10}, {"femnist_cnn", 10},         {"resnet8", 10}, {"resnet20", 10},
      {"mobilenet_v2", 10}, {"char_lstm", 10},  {"tiny_transformer", 10}};
  for (const auto& [preset, batch] : presets) {
    benchmark::RegisterBenchmark(fmt::format("step/{}/{}", preset, batch).c_str(), [preset = preset, batch = batch](
                                                                                       benchmark::State& state) {
      BenchStep(state, preset, batch);
    })->Unit(unit(preset));
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
