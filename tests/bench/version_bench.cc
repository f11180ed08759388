// version/STAGE/MODEL: from the folded updates of a round to the next version: ready (finished, applied, hashed), and
// from there written (its file, synced).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/commit/commit.h"
#include "coordinator/model_store/model_store.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet::bench {
namespace {

// 6.65 MB, as McMahan's CNN: a large tensor and small ones.
constexpr int64_t kVersionParameters = 1'663'370;

void BenchVersion(benchmark::State& state, bool write) {
  std::string folder = (std::filesystem::temp_directory_path() / "rivulet-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no folder");
  const VariableSpec variables[] = {
      {"dense/kernel", {DType::kFloat32, Shape{3136, 512}}, Segment::kTrainable},
      {"dense/bias", {DType::kFloat32, Shape{512}}, Segment::kTrainable},
      {"conv/kernel", {DType::kFloat32, Shape{57226}}, Segment::kTrainable},
  };
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  auto store = ModelStore::Open(FileSystem::Default(), folder + "/history.sqlite", "run", ModelStore::Folder::kNew);
  if (!store.ok()) return state.SkipWithError(std::string(Message(store.status())).c_str());
  const auto sgd = *ServerOptimizer::Create({"sgd"});
  ServerState base = *FirstState(std::make_shared<const Model>(layout), *sgd);
  std::vector<float> update(static_cast<size_t>(kVersionParameters));
  for (size_t i = 0; i < update.size(); ++i) update[i] = static_cast<float>(i % 1000) * 1e-6f;
  AggregationSpec spec;
  spec.parts = {{.elements = kVersionParameters}};
  int64_t round = 0;
  std::vector<double> hash_seconds;
  for (auto _ : state) {
    auto aggregation = *Aggregation::Create(spec);
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(update))};
    if (!aggregation->Fold({"task", 0, std::span(&part, 1), {}}, {.parts = {6}}).ok())
      return state.SkipWithError("no fold");
    const auto begin = std::chrono::steady_clock::now();
    const auto made = MakeVersion(base, std::move(aggregation), nullptr, {*sgd, 1}, nullptr, nullptr);
    const auto ready = std::chrono::steady_clock::now();
    if (!made.ok()) return state.SkipWithError(std::string(Message(made.status())).c_str());
    const Status stored = store.value()->Write(store.value()->Describe(++round, *made).value());
    const auto written = std::chrono::steady_clock::now();
    if (!stored.ok()) return state.SkipWithError(std::string(Message(stored)).c_str());
    state.SetIterationTime(std::chrono::duration<double>(write ? written - ready : ready - begin).count());
    base = *made;
    store.value()->Remove(round).IgnoreError();
    const auto hashing = std::chrono::steady_clock::now();
    if (base.model->ComputeDigest() != made->digest) return state.SkipWithError("another digest");
    hash_seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - hashing).count());
  }
  std::filesystem::remove_all(folder);
  std::nth_element(hash_seconds.begin(), hash_seconds.begin() + static_cast<std::ptrdiff_t>(hash_seconds.size() / 2),
                   hash_seconds.end());
  state.counters["hash_ms"] = 1e3 * hash_seconds[hash_seconds.size() / 2];
}

[[maybe_unused]] const bool kVersionsRegistered = [] {
  for (const bool write : {false, true}) {
    benchmark::RegisterBenchmark(write ? "version/written/6.65MB" : "version/ready/6.65MB",
                                 [write](benchmark::State& state) { BenchVersion(state, write); })
        ->Iterations(30)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
