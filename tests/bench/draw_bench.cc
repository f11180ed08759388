// draw/KIND: selection of a cohort of 1,000 names out of a million.
#include <benchmark/benchmark.h>

#include "federated/population/population.h"
#include "federated/random/lazy_permutation.h"
#include "federated/random/streams.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kClients = 1'000'000;
constexpr int kCohort = 1000;

void Draw(benchmark::State& state, const Population& population) {
  uint32_t round = 0;
  for (auto _ : state) {
    LazyPermutation order(Draws(StreamFor(1, "", Purpose::kSelect, ++round), 0), population.size());
    std::vector<int64_t> ranks;
    while (order.given() < kCohort) ranks.push_back(*order.Next());
    benchmark::DoNotOptimize(population.NamesAt(ranks));
  }
}

void BenchDrawRanks(benchmark::State& state) {
  uint32_t round = 0;
  for (auto _ : state) {
    LazyPermutation order(Draws(StreamFor(1, "", Purpose::kSelect, ++round), 0), kClients);
    int64_t sum = 0;
    for (int i = 0; i < kCohort; ++i) sum += *order.Next();
    benchmark::DoNotOptimize(sum);
  }
}

void BenchDrawNumbered(benchmark::State& state) { Draw(state, *NumberedPopulation(kClients)); }

void BenchDrawNamed(benchmark::State& state) {
  const auto population = OpenPopulation(kClients);
  for (int64_t i = 0; i < kClients; ++i) {
    if (!population->Insert(fmt::format("phone-{}", i * 7919 % kClients)).ok()) return state.SkipWithError("no room");
  }
  Draw(state, *population);
}

BENCHMARK(BenchDrawRanks)->Name("draw/ranks")->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchDrawNumbered)->Name("draw/numbered")->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchDrawNamed)->Name("draw/named")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rivulet::bench
