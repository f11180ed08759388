// fold/100: checking and folding 100 updates of mnist_cnn's size, and finishing, as a coordinator does for one round.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "federated/aggregation/aggregation.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kElements = 1663370;
constexpr int kUpdates = 100;
constexpr int kDistinct = 10;  // different deltas: 66 MB, more than caches hold

void BenchFold(benchmark::State& state) {
  std::vector<std::vector<float>> deltas(kDistinct, std::vector<float>(kElements));
  for (size_t d = 0; d < kDistinct; ++d) {
    for (size_t i = 0; i < deltas[d].size(); ++i) {
      deltas[d][i] = static_cast<float>(static_cast<int64_t>((i * 2654435761u + d * 40503u) % 2001) - 1000) * 1e-4f;
    }
  }
  AggregationSpec spec;
  spec.elements = kElements;
  spec.updates_per_version = kUpdates;
  const Scalars scalars;
  float first = 0;
  for (auto _ : state) {
    auto aggregation = Aggregation::Create(spec);
    if (!aggregation.ok()) return state.SkipWithError(std::string(aggregation.status().message()).c_str());
    for (int i = 0; i < kUpdates; ++i) {
      PartView part;
      part.name = "delta";
      part.data = std::as_bytes(std::span(deltas[static_cast<size_t>(i % kDistinct)]));
      part.weight = 600;
      const UpdateView update{std::to_string(i), {&part, 1}, scalars};
      Status status = (*aggregation)->Check(update);
      if (status.ok()) status = (*aggregation)->Fold(update);
      if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    }
    const auto finished = std::move(**aggregation).Finish();
    if (!finished.ok()) return state.SkipWithError(std::string(finished.status().message()).c_str());
    first = finished->mean_delta[0];
  }
  double mean = 0;
  for (const std::vector<float>& delta : deltas) mean += static_cast<double>(delta[0]) / kDistinct;
  if (std::abs(mean - static_cast<double>(first)) > 1e-7) return state.SkipWithError("a wrong mean");
  // Per update: the delta is read, the 64-bit sums are read and written.
  const double bytes = static_cast<double>(state.iterations()) * kUpdates * static_cast<double>(kElements);
  state.SetItemsProcessed(state.iterations() * kUpdates);
  state.counters["GB/s"] = benchmark::Counter(bytes * 20 / 1e9, benchmark::Counter::kIsRate);
  state.counters["input_GB/s"] = benchmark::Counter(bytes * 4 / 1e9, benchmark::Counter::kIsRate);
  state.counters["memory_share"] = benchmark::Counter(bytes * 20 / 1e9 / ReadGigabytes(), benchmark::Counter::kIsRate);
}

BENCHMARK(BenchFold)->Name("fold/100")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rivulet::bench
