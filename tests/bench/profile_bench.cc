// profile/PRESET: a preset's training step without a monitor, with an idle one, and recorded, interleaved.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/profile/step_monitor.h"
#include "federated/weights/model.h"
#include "tests/bench/bench_plan.h"

namespace rivulet::bench {
namespace {

// Takes what it gets, or wants nothing.
class CountingSink final : public RunSink {
 public:
  explicit CountingSink(bool wants) : wants_(wants) {}
  bool Wants() override { return wants_; }
  void Take(const RecordedRun& run) override { calls += static_cast<int64_t>(run.spans.size()); }
  int64_t calls = 0;

 private:
  const bool wants_;
};

double Median(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

void BenchProfile(benchmark::State& state, const std::string& preset) {
  EnterWorkerThread();
  const auto plan = PresetPlan(preset);
  if (!plan.ok()) return state.SkipWithError("no plan");
  const auto cache = std::make_shared<PassPrograms>(*plan);
  const auto program = cache->Step(TaskKind::kTrain, 0, 10);
  const auto model = InitialModel(**plan, 1);
  if (!program.ok() || !model.ok()) return state.SkipWithError("the step does not compile");
  const auto instance = (*program)->Instantiate();
  if (!instance.ok()) return state.SkipWithError("no instance");
  std::vector<AlignedBuffer> memory;
  std::vector<Buffer> buffers;
  const BufferTable& table = cache->buffers();
  for (int i = 0; i < table.size(); ++i) memory.emplace_back(table.bytes(i));
  std::memcpy(memory[BufferTable::kParams].data(), (*model)->arena().data(), (*model)->arena().size());
  for (AlignedBuffer& buffer : memory) buffers.push_back({buffer.data()});
  std::vector<Tensor> tensors;
  std::vector<TensorView> feeds;
  for (const FeedSpec& feed : (*program)->signature().feeds) {
    tensors.emplace_back(feed.spec.dtype, feed.spec.shape);
    feeds.push_back(tensors.back().view());
  }
  float loss = 0;
  const TensorView fetch{reinterpret_cast<std::byte*>(&loss), DType::kFloat32, Shape{}};
  AlignedBuffer arena((*program)->memory().arena_bytes);
  StreamKey rng;
  uint64_t index = 0;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = {&fetch, 1};
  bindings.rng = {&rng, 1};
  bindings.step = {&index, 1};

  CountingSink nobody(false), somebody(true);
  StepMonitor idle({&nobody}), recording({&somebody});
  std::vector<double> plain, off, on;
  const auto time = [&](StepMonitor* monitor, bool watched, std::vector<double>& seconds) {
    const int64_t begin = ProfileNanos();
    Status status;
    if (watched) {
      MonitoredRun run(monitor, bindings);
      status = (*instance)->Run(bindings);
      run.Done();
    } else {
      status = (*instance)->Run(bindings);
    }
    seconds.push_back(static_cast<double>(ProfileNanos() - begin) * 1e-9);
    return status.ok();
  };
  // Each goes first as often as the others: what runs after another finds its caches.
  for (auto _ : state) {
    for (int first = 0; first < 3; ++first) {
      for (int turn = 0; turn < 3; ++turn) {
        const int which = (first + turn) % 3;
        const bool ok = which == 0   ? time(nullptr, false, plain)
                        : which == 1 ? time(&idle, true, off)
                                     : time(&recording, true, on);
        if (!ok) return state.SkipWithError("a step failed");
      }
    }
  }
  if (somebody.calls == 0 || nobody.calls != 0) return state.SkipWithError("the wrong runs were recorded");
  const double one = Median(plain);
  state.counters["step_us"] = one * 1e6;
  state.counters["off_percent"] = 100 * (Median(off) / one - 1);
  state.counters["on_percent"] = 100 * (Median(on) / one - 1);
}

const bool profile_registered = [] {
  for (const char* preset : {"mnist_cnn", "mlp", "logistic_regression"}) {
    benchmark::RegisterBenchmark(fmt::format("profile/{}", preset).c_str(), [preset](benchmark::State& state) {
      BenchProfile(state, preset);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
