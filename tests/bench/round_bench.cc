// round/MODEL/WORKERS: a round of a simulation from its clients' polls to its rows: many clients of six examples, who
// take one step each. The same loops in PyTorch, NumPy and JAX stand in simulations/comparisons/.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "engine/base/mutex.h"
#include "engine/data/tfrecord.h"
#include "simulations/simulator.h"
#include "tests/bench/stream_add.h"
#include "tests/testing/memory_dataset.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kExamples = 6;  // a client's, and one batch
// The first rounds compile programs and touch memory for the first time.
constexpr size_t kWarmRounds = 2;

struct RoundWorkload {
  const char* name;
  int64_t side;                 // of the square images
  std::vector<int64_t> hidden;  // units of the layers between the image and its ten classes
  int64_t parameters;
  int64_t clients, cohort, rounds;
};

// McMahan's 2NN; the least model there is, so that the time is the framework's; 6.65 MB, as large as its CNN, but with
// no convolutions to hide behind.
const RoundWorkload kRoundWorkloads[] = {
    {"2nn", 28, {200, 200}, 199'210, 10'000, 1000, 9},
    {"logistic50", 2, {}, 50, 10'000, 1000, 22},
    {"6.65MB", 28, {2092}, 1'663'150, 1000, 50, 12},
};

// Removed with all that is in it.
struct RoundFolder {
  std::string path = (std::filesystem::temp_directory_path() / "rivulet-bench-XXXXXX").string();
  RoundFolder() {
    if (mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~RoundFolder() {
    if (!path.empty()) std::filesystem::remove_all(path);
  }
};

// Images of random bytes, brighter in a place that says the label.
Status WriteImages(const std::string& path, int64_t examples, int64_t side) {
  RIVULET_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Create(FileSystem::Default(), path));
  const auto pixels = static_cast<size_t>(side * side);
  uint32_t state = 1;
  for (int64_t i = 0; i < examples; ++i) {
    std::string image(pixels, '\0');
    for (char& pixel : image) {
      state = state * 1664525u + 1013904223u;
      pixel = static_cast<char>(state >> 26);
    }
    const int64_t label = i % 10;
    image[static_cast<size_t>(label) * pixels / 10] = static_cast<char>(255);
    RIVULET_RETURN_IF_ERROR(writer->Append(testing::DigitExample(image, label)));
  }
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  return writer->Publish();
}

// Rounds of DP-FedAvg, or with no clip plain ones.
struct PrivacyOfRounds {
  double clip = 0, noise_multiplier = 0;
};

StatusOr<Scenario> RoundScenario(const RoundWorkload& workload, const std::string& folder,
                                 const PrivacyOfRounds& privacy) {
  const std::string algorithm =
      privacy.clip == 0
          ? ""
          : fmt::format("[algorithm]\nname = \"dp_fedavg\"\nnoise_multiplier = {}\n[privacy]\nclip = {}\n",
                        privacy.noise_multiplier, privacy.clip);
  std::string hidden;
  for (const int64_t units : workload.hidden) {
    hidden += fmt::format(R"({{type = "dense", units = {}, activation = "relu"}}, )", units);
  }
  return Scenario::Parse(fmt::format(R"(
[run]
name = "round"
rounds = {}
[model]
layers = [{{type = "flatten"}}, {}{{type = "dense", units = 10}}]
input = {{shape = [{}, {}, 1], kind = "pixels"}}
[data]
train = "train.tfrecord"
partition = {{kind = "iid", clients = {}}}
[client]
batch_size = {}
optimizer = {{kind = "sgd", learning_rate = 0.1}}
[server]
clients_per_round = {}
[evaluation]
every = 0
{})",
                                     workload.rounds, hidden, workload.side, workload.side, workload.clients, kExamples,
                                     workload.cohort, algorithm),
                         "round_bench.toml", folder);
}

double MedianRound(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct MeasuredRounds {
  std::vector<double> seconds;       // from one round's rows to the next one's
  std::vector<double> step_seconds;  // a task's training, by its own clock
  std::vector<double> norms;         // of updates as they were added
  std::vector<double> cpu_seconds;   // of all threads, from one round's rows to the next one's
};

StatusOr<MeasuredRounds> RunRounds(const RoundWorkload& workload, int workers, const PrivacyOfRounds& privacy = {}) {
  const RoundFolder folder;
  RIVULET_RETURN_IF_ERROR(WriteImages(folder.path + "/train.tfrecord", workload.clients * kExamples, workload.side));
  Mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> committed;
  std::vector<double> spent;  // of the processor
  std::string wrong;
  SimulationOptions options;
  RIVULET_ASSIGN_OR_RETURN(options.scenario, RoundScenario(workload, folder.path, privacy));
  options.db_path = folder.path + "/history.sqlite";
  options.workers = workers;
  double first_loss = 0, last_loss = 0;
  options.observer.on_round = [&](const RoundReport& report) {
    MutexLock lock(mutex);
    committed.push_back(std::chrono::steady_clock::now());
    spent.push_back(static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    if (report.folded != workload.cohort) wrong = fmt::format("round {} folded {}", report.round, report.folded);
    (committed.size() == 1 ? first_loss : last_loss) = report.train_loss.value_or(0);
  };
  std::string run_id;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto simulation, Simulation::Create(std::move(options)));
    RIVULET_ASSIGN_OR_RETURN(const SimulationResult result, simulation->Run());
    run_id = result.run_id;
    if (result.model->layout().update_elements() != workload.parameters) {
      return Internal("the model has {} parameters", result.model->layout().update_elements());
    }
  }
  MutexLock lock(mutex);
  if (!wrong.empty()) return Internal("{}", wrong);
  if (privacy.clip == 0 && !(last_loss < first_loss))
    return Internal("the loss went from {} to {}", first_loss, last_loss);
  MeasuredRounds measured;
  for (size_t i = kWarmRounds; i < committed.size(); ++i) {
    measured.seconds.push_back(std::chrono::duration<double>(committed[i] - committed[i - 1]).count());
    measured.cpu_seconds.push_back(spent[i] - spent[i - 1]);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto history,
                           History::Open(folder.path + "/history.sqlite", History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const auto tasks, history->ClientRounds(run_id));
  for (const ClientRoundRow& task : tasks) {
    if (task.round > static_cast<int64_t>(kWarmRounds)) {
      measured.step_seconds.push_back(task.train_seconds.value_or(0));
      measured.norms.push_back(task.update_norm.value_or(0));
    }
  }
  return measured;
}

struct PrivateWorkload {
  const char* name;
  PrivacyOfRounds privacy;
  double clipped_share;  // of the updates
};

// Norms of the 2NN's updates are between both clips.
const PrivateWorkload kPrivateWorkloads[] = {{"all_clipped", {1e-3, 1}, 1}, {"none_clipped", {10, 0.01}, 0}};

// Runs of both kinds in turns, so that the machine's other work meets both alike.
void BenchPrivateRound(benchmark::State& state, const PrivateWorkload& kind) {
  constexpr int kTurns = 5;
  const RoundWorkload& workload = kRoundWorkloads[0];
  for (auto _ : state) {
    std::vector<double> plain, with_privacy, ratios, plain_cpu, with_privacy_cpu;
    double clipped = 0, updates = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto without = RunRounds(workload, 1), with = RunRounds(workload, 1, kind.privacy);
      for (const auto* measured : {&without, &with}) {
        if (!measured->ok()) return state.SkipWithError(std::string(Message(measured->status())).c_str());
      }
      ratios.push_back(MedianRound(with->seconds) / MedianRound(without->seconds));
      plain.insert(plain.end(), without->seconds.begin(), without->seconds.end());
      with_privacy.insert(with_privacy.end(), with->seconds.begin(), with->seconds.end());
      plain_cpu.insert(plain_cpu.end(), without->cpu_seconds.begin(), without->cpu_seconds.end());
      with_privacy_cpu.insert(with_privacy_cpu.end(), with->cpu_seconds.begin(), with->cpu_seconds.end());
      for (const double norm : with->norms) clipped += norm > 0.999 * kind.privacy.clip ? 1 : 0;
      updates += static_cast<double>(with->norms.size());
    }
    if (clipped != kind.clipped_share * updates) return state.SkipWithError("another share of updates is clipped");
    state.SetIterationTime(MedianRound(with_privacy));
    state.counters["plain_ms"] = 1e3 * MedianRound(plain);
    state.counters["to_plain"] = MedianRound(with_privacy) / MedianRound(plain);
    state.counters["cpu_to_plain"] = MedianRound(with_privacy_cpu) / MedianRound(plain_cpu);
    state.counters["to_plain_least"] = *std::min_element(ratios.begin(), ratios.end());
    state.counters["to_plain_most"] = *std::max_element(ratios.begin(), ratios.end());
  }
}

void BenchRound(benchmark::State& state, const RoundWorkload& workload, int workers) {
  static double alone = 0;  // seconds of the last row of one worker
  for (auto _ : state) {
    const auto measured = RunRounds(workload, workers);
    if (!measured.ok()) return state.SkipWithError(std::string(Message(measured.status())).c_str());
    const double round = MedianRound(measured->seconds);
    state.SetIterationTime(round);
    const double task = round * workers / static_cast<double>(workload.cohort);
    const auto parameters = static_cast<double>(workload.parameters);
    state.counters["us_per_task"] = 1e6 * task;
    state.counters["beside_us"] = 1e6 * (task - MedianRound(measured->step_seconds));
    state.counters["ns_per_parameter"] = 1e9 * task / parameters;
    // What the cohort's updates cost when they are only added up.
    std::vector<float> update(static_cast<size_t>(workload.parameters), 0.5f);
    std::vector<double> sums(update.size()), streams;
    for (int i = 0; i < 25; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      StreamAdd(update, kExamples, sums);
      benchmark::DoNotOptimize(sums.data());
      streams.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    state.counters["stream_share"] = MedianRound(streams) / task;
    if (workers == 1) alone = round;
    if (workers > 1 && alone > 0) state.counters["speedup"] = alone / round;
  }
}

[[maybe_unused]] const bool kRoundsRegistered = [] {
  for (const RoundWorkload& workload : kRoundWorkloads) {
    for (const int workers : {1, 2}) {
      benchmark::RegisterBenchmark(
          fmt::format("round/{}/{}", workload.name, workers).c_str(),
          [&workload, workers](benchmark::State& state) { BenchRound(state, workload, workers); })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  for (const PrivateWorkload& kind : kPrivateWorkloads) {
    benchmark::RegisterBenchmark(fmt::format("private_round/2nn/{}", kind.name).c_str(),
                                 [&kind](benchmark::State& state) { BenchPrivateRound(state, kind); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
