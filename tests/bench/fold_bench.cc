// fold/100: folding 100 updates of mnist_cnn's size, and finishing, as a coordinator does for one round.
// take/N: one update of N parameters from where a trainer leaves it, parameters and base, as a worker does for each
// task. Both beside the same memory streamed with nothing asked of it, turn by turn: the share is of the medians.
// take_top_k: one that was sent as a hundredth of its values with their places.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "federated/aggregation/aggregation.h"
#include "federated/codecs/codec.h"
#include "tests/bench/stream_add.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kElements = 1663370;
constexpr int kUpdates = 100;
constexpr int kDistinct = 10;  // different deltas: 66 MB

// Of this thread's processor, which the machine's other work does not count into.
double Now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Body>
double Seconds(const Body& body) {
  const double begin = Now();
  body();
  return Now() - begin;
}

double MedianOf(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

float DeltaAt(size_t i, size_t d) {
  return static_cast<float>(static_cast<int64_t>((i * 2654435761u + d * 40503u) % 2001) - 1000) * 1e-4f;
}

void BenchFold(benchmark::State& state) {
  std::vector<std::vector<float>> deltas(kDistinct, std::vector<float>(kElements));
  for (size_t d = 0; d < kDistinct; ++d) {
    for (size_t i = 0; i < deltas[d].size(); ++i) deltas[d][i] = DeltaAt(i, d);
  }
  AggregationSpec spec;
  spec.parts = {{.elements = kElements}};
  spec.updates_per_version = kUpdates;
  const Scalars scalars;
  float first = 0;
  std::vector<double> sums(kElements), folds, streams;
  for (auto _ : state) {
    auto aggregation = Aggregation::Create(spec);
    if (!aggregation.ok()) return state.SkipWithError(std::string(aggregation.status().message()).c_str());
    Status status;
    folds.push_back(Seconds([&] {
      for (int i = 0; i < kUpdates && status.ok(); ++i) {
        const std::vector<float>& delta = deltas[static_cast<size_t>(i % kDistinct)];
        const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
        status = (*aggregation)->Take({std::to_string(i), 0, {&part, 1}, scalars}, {.parts = {600}}).status();
      }
    }));
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    const auto finished = std::move(**aggregation).Finish();
    if (!finished.ok()) return state.SkipWithError(std::string(finished.status().message()).c_str());
    first = finished->parts[0].mean[0];
    state.PauseTiming();
    std::fill(sums.begin(), sums.end(), 0);
    streams.push_back(Seconds([&] {
      for (size_t i = 0; i < kUpdates; ++i) StreamAdd(deltas[i % kDistinct], 600, sums);
    }));
    benchmark::DoNotOptimize(sums.data());
    state.ResumeTiming();
  }
  double mean = 0;
  for (const std::vector<float>& delta : deltas) mean += static_cast<double>(delta[0]) / kDistinct;
  if (std::abs(mean - static_cast<double>(first)) > 1e-7) return state.SkipWithError("a wrong mean");
  const double fold = MedianOf(folds), stream = MedianOf(streams);
  state.counters["update_GB/s"] = 4e-9 * kUpdates * kElements / fold;
  state.counters["stream_GB/s"] = 4e-9 * kUpdates * kElements / stream;
  state.counters["stream_share"] = stream / fold;
}

void BenchTake(benchmark::State& state) {
  const auto elements = static_cast<size_t>(state.range(0));
  std::vector<float> params(elements), base(elements);
  for (size_t i = 0; i < elements; ++i) base[i] = DeltaAt(i, 1), params[i] = base[i] + DeltaAt(i, 2);
  AggregationSpec spec;
  spec.parts = {{.elements = state.range(0)}};
  spec.updates_per_version = int64_t{1} << 30;
  spec.max_weight = 1000;
  auto aggregation = Aggregation::Create(spec);
  if (!aggregation.ok()) return state.SkipWithError(std::string(aggregation.status().message()).c_str());
  const FloatRun run{params.data(), base.data(), state.range(0)};
  const PartView part{.name = "delta", .runs = {&run, 1}};
  const Scalars scalars;
  const Weights weights{.parts = {60}};
  std::vector<double> sums(elements), takes, streams;
  int64_t task = 0;
  for (auto _ : state) {
    const UpdateView update{std::to_string(task++), 0, {&part, 1}, scalars};
    Status status;
    takes.push_back(Seconds([&] { status = (*aggregation)->Take(update, weights).status(); }));
    state.SetIterationTime(takes.back());
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  }
  // Apart, so that what fits a cache has it for itself.
  for (size_t i = 0; i < std::max<size_t>(5, takes.size() / 10); ++i) {
    streams.push_back(Seconds([&] { StreamAdd(params, 60, sums); }));
    benchmark::DoNotOptimize(sums.data());
  }
  const double take = MedianOf(takes);
  state.counters["ns_per_parameter"] = 1e9 * take / static_cast<double>(elements);
  state.counters["stream_ns"] = 1e9 * MedianOf(streams) / static_cast<double>(elements);
}

// One update of a hundredth of 10^6 values, as a coordinator that was sent it folds it.
void BenchTakeTopK(benchmark::State& state) {
  constexpr int64_t kValues = 1'000'000;
  AggregationSpec spec;
  spec.parts = {{.codec = "top_k", .codec_settings = {{"fraction", 0.01}}, .elements = kValues}};
  spec.updates_per_version = int64_t{1} << 30;
  spec.max_weight = 1000;
  const auto codec = Codec::Create("top_k", kValues, spec.parts[0].codec_settings);
  auto aggregation = Aggregation::Create(spec);
  if (!codec.ok() || !aggregation.ok()) return state.SkipWithError("no top_k");
  std::vector<float> delta(kValues);
  for (size_t i = 0; i < delta.size(); ++i) delta[i] = DeltaAt(i, 2);
  const FloatRun run{delta.data(), nullptr, kValues};
  std::string bytes;
  Draws draws(StreamKey{}, 0);
  (*codec)->Encode({&run, 1}, draws, bytes);
  const PartView part{.name = "delta", .data = std::as_bytes(std::span(bytes))};
  const Scalars scalars;
  std::vector<double> takes;
  int64_t task = 0;
  for (auto _ : state) {
    const UpdateView update{std::to_string(task++), 0, {&part, 1}, scalars};
    Status status;
    takes.push_back(Seconds([&] { status = (*aggregation)->Take(update, {.parts = {60}}).status(); }));
    state.SetIterationTime(takes.back());
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  }
  state.counters["ns_per_sent_value"] = 1e9 * MedianOf(takes) / static_cast<double>((*codec)->MaxBytes() / 8);
}

BENCHMARK(BenchTakeTopK)->Name("take_top_k/1%_of_1e6")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchFold)->Name("fold/100")->Unit(benchmark::kMillisecond);
BENCHMARK(BenchTake)
    ->Name("take")
    ->Arg(50)
    ->Arg(7850)
    ->Arg(100'000)
    ->Arg(199'210)
    ->Arg(1'000'000)
    ->Arg(1'663'370)
    ->Arg(10'000'000)
    ->Arg(100'000'000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rivulet::bench
