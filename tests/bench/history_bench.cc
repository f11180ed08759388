// history/round/N: writing the rows of a round of N tasks, from the record of the attempt to the synced transaction, in
// a growing history. Clients are drawn from ten times as many, with all fields of deployed ones.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet::bench {
namespace {

constexpr char kRunId[] = "run";

AttemptRecord RoundOf(int64_t round, int64_t tasks) {
  AttemptRecord record;
  record.round.run_id = kRunId;
  record.round.round = round;
  record.round.status = "committed";
  record.round.started_at = Iso8601(round * 4000);
  record.round.finished_at = Iso8601(round * 4000 + 3000);
  record.round.folded = tasks;
  record.round.examples = 50 * tasks;
  record.round.train_loss = 0.5;
  const Digest digest = Sha256Of("update");
  for (int64_t i = 0; i < tasks; ++i) {
    ClientRoundRow& task = record.tasks.emplace_back();
    task.client_id = fmt::format("client-{:05}", (round * 7919 + i * 10) % (10 * tasks));
    task.task_id = fmt::format("{}-r{}-a1-{}-0", kRunId, round, task.client_id);
    task.run_id = kRunId;
    task.round = round;
    task.status = "folded";
    task.base_round = round - 1;
    task.examples = 50;
    task.steps = 5;
    task.train_loss = 0.5 + 1e-6 * static_cast<double>(i);
    task.update_norm = 0.1 + 1e-6 * static_cast<double>(i);
    task.update_digest = digest;
    task.bytes_down = task.bytes_up = 6'650'000;
    task.wait_seconds = 0.1;
    task.train_seconds = 1.5;
    task.upload_seconds = 0.2;
    record.seen.emplace_back(task.client_id, round * 4000);
  }
  return record;
}

void WriteRounds(benchmark::State& state, int64_t tasks) {
  std::string folder = (std::filesystem::temp_directory_path() / "rivulet-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no temporary folder");
  {
    auto history = History::Open(folder + "/history.sqlite", History::Access::kReadWrite);
    RunRow run;
    run.run_id = run.name = kRunId;
    run.status = "running";
    run.plan_digest = std::string(64, '0');
    run.created_at = Iso8601(0);
    ModelRow model;
    model.run_id = kRunId;
    model.digest = run.plan_digest;
    Status status = history.ok() ? (*history)->AddRun(run, model, {}) : history.status();
    std::vector<double> milliseconds;
    int64_t round = 0;
    for ([[maybe_unused]] auto _ : state) {
      const AttemptRecord record = RoundOf(++round, tasks);
      const auto begin = std::chrono::steady_clock::now();
      if (status.ok()) status = (*history)->AddAttempt(record);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      milliseconds.push_back(took.count() * 1e3);
      state.SetIterationTime(took.count());
      if (round % 20 == 0 && status.ok()) status = (*history)->BringOver().status();
    }
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    std::ranges::sort(milliseconds);
    state.counters["median_ms"] = milliseconds[milliseconds.size() / 2];
    state.counters["us_per_row"] = 1e3 * milliseconds[milliseconds.size() / 2] / static_cast<double>(tasks);
  }
  std::filesystem::remove_all(folder);
}

[[maybe_unused]] const bool kHistoryRegistered = [] {
  benchmark::RegisterBenchmark("history/round/1000", [](benchmark::State& state) { WriteRounds(state, 1000); })
      ->UseManualTime()
      ->Iterations(200);
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
