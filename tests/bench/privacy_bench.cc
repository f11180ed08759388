// privacy/KIND: exact noise on integers on one core, each draw of ten million held against the exact law; and the
// epsilon of 10,000 sampled rounds.
#include <benchmark/benchmark.h>

#include <cmath>

#include "federated/privacy/accountant.h"
#include "federated/privacy/discrete.h"
#include "federated/privacy/integer_noise.h"
#include "tests/testing/chi_squared.h"

namespace rivulet::bench {
namespace {

constexpr size_t kDraws = 10'000'000;

// A chi-squared beyond five deviations is a wrong law, or the bad luck of one bench in two million.
constexpr double kMostDeviations = 5;

template <typename Law, typename Mass>
void DrawAndCheck(benchmark::State& state, const Law& law, Mass mass) {
  privacy::NoiseKey::Bytes bytes{};
  const privacy::NoiseKey key = privacy::NoiseKey::FromBytes(bytes);
  std::vector<int64_t> draws(kDraws);
  for (auto _ : state) {
    if (!DrawNoise(key, law, 0, draws).ok()) return state.SkipWithError("no noise was drawn");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kDraws));
  const double deviations = testing::ChiSquaredDeviations(draws, mass);
  state.counters["chi_squared_deviations"] = deviations;
  if (std::abs(deviations) > kMostDeviations) state.SkipWithError("the draws do not have the exact law");
}

void BenchDiscreteGaussian(benchmark::State& state) {
  const double parameter = static_cast<double>(state.range(0)) / 10;
  const auto scale = privacy::NoiseScale::AtLeast(parameter);
  if (!scale.ok()) return state.SkipWithError("no such scale");
  DrawAndCheck(state, privacy::DiscreteGaussian(*scale),
               [&](int64_t k) { return privacy::DiscreteGaussianMass(scale->value(), k); });
}

void BenchDiscreteLaplace(benchmark::State& state) {
  const auto law = privacy::DiscreteLaplace::Create(static_cast<uint64_t>(state.range(0)), 10);
  if (!law.ok()) return state.SkipWithError("no such scale");
  DrawAndCheck(state, *law,
               [&](int64_t k) { return privacy::DiscreteLaplaceMass(static_cast<double>(state.range(0)) / 10, k); });
}

void BenchEpsilon(benchmark::State& state) {
  const privacy::Composition composition{
      .rounds = {{.multiplier = 4, .sampling = privacy::SamplingKind::kPoisson, .rate = 0.01, .count = 10000}}};
  double epsilon = 0;
  for (auto _ : state) {
    const auto spend = EpsilonOf(composition, 1e-5);
    if (!spend.ok()) return state.SkipWithError("no epsilon");
    epsilon = spend->value;
  }
  if (!(std::abs(epsilon / 0.9469 - 1) < 1e-3)) state.SkipWithError("another epsilon than dp-accounting's");
}

BENCHMARK(BenchDiscreteGaussian)
    ->Name("privacy/discrete_gaussian")
    ->Arg(5)
    ->Arg(37)
    ->Arg(1000)
    ->Arg(1000000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(BenchDiscreteLaplace)
    ->Name("privacy/discrete_laplace")
    ->Arg(7)
    ->Arg(500)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(BenchEpsilon)->Name("privacy/epsilon_10000_rounds")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rivulet::bench
