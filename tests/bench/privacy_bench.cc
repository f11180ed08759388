// privacy/KIND: exact noise on integers on one core, with ten million draws each compared with the exact distribution;
// and the epsilon of 10,000 sampled rounds.
#include <benchmark/benchmark.h>

#include <cmath>

#include "federated/mechanisms/mechanism.h"
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

// The noise that a client adds to its update, from the values to the values that are sent.
void BenchClientNoise(benchmark::State& state, const char* mechanism, SettingValues settings) {
  constexpr size_t kValues = 1'000'000;
  const auto noise = Mechanism::Create({mechanism, std::move(settings)});
  if (!noise.ok()) return state.SkipWithError("no such mechanism");
  std::vector<float> zeros(kValues);
  const std::span<float> all = zeros;
  Draws draws(StreamKey{}, 0);
  Scalars declared;
  for (auto _ : state) {
    std::ranges::fill(zeros, 0.0f);
    if (!(*noise)->Apply({&all, 1}, draws, declared).ok()) return state.SkipWithError("no noise was added");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kValues));
  double squares = 0;
  for (const float value : zeros) squares += static_cast<double>(value) * static_cast<double>(value);
  const double deviation = std::sqrt(squares / kValues);  // 1,000 units of 2^-10, of both
  if (!(std::abs(deviation * 1024 / 1000 - 1) < 0.01)) state.SkipWithError("noise of another deviation");
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
BENCHMARK_CAPTURE(BenchClientNoise, gaussian, "discrete_gaussian",
                  SettingValues{{"fraction_bits", 10.0}, {"parameter", 1000.0}, {"source", std::string("seeded")}})
    ->Name("privacy/client_noise/gaussian")
    ->Unit(benchmark::kMillisecond);
// A deviation of 1,000 units: of the scale b it is the root of 2 b^2.
BENCHMARK_CAPTURE(
    BenchClientNoise, laplace, "discrete_laplace",
    SettingValues{{"fraction_bits", 10.0}, {"clip_units", 1000.0}, {"scale", 707.0}, {"source", std::string("seeded")}})
    ->Name("privacy/client_noise/laplace")
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BenchEpsilon)->Name("privacy/epsilon_10000_rounds")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rivulet::bench
