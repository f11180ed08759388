// FedAvgM, FedAdagrad and FedYogi compared with NumPy in double, the limits that are federated averaging, and the
// effect of each option.
#include "tests/federated/algorithms/reference/server_rules.inc"

#include <cmath>

#include "federated/random/streams.h"
#include "tests/federated/algorithms/server_rounds.h"

namespace rivulet {
namespace {

namespace server_numpy = server_rules_reference;
using testing::ModelWith;
using testing::ServerOf;
using testing::WeightsIn;

const SettingValues kAdagradOptions = {
    {"beta1", server_numpy::kBeta1}, {"tau", server_numpy::kTau}, {"initial_accumulator", server_numpy::kFirst}};
const SettingValues kYogiOptions = {{"beta1", server_numpy::kBeta1},
                                    {"beta2", server_numpy::kBeta2},
                                    {"tau", server_numpy::kTau},
                                    {"initial_accumulator", server_numpy::kFirst}};

// Where one weight that begins at 0 is after these deltas.
double After(const std::string& algorithm, const SettingValues& options, const std::vector<float>& deltas,
             double learning_rate = 1) {
  const auto server = ServerOf(algorithm, options);
  EXPECT_OK(server);
  StatusOr<ServerState> state = FirstState(ModelWith(std::vector<float>{0}), **server);
  for (const float delta : deltas) {
    state = NextState(*state, **server, learning_rate, std::span(&delta, 1));
    EXPECT_OK(state);
  }
  return WeightsIn(*state)[0];
}

void ExpectNumPys(const std::string& algorithm, const SettingValues& options, std::span<const double> wanted) {
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOf(algorithm, options));
  ASSERT_OK_AND_ASSIGN(
      ServerState state,
      FirstState(ModelWith(std::vector<float>(std::begin(server_numpy::kBase), std::end(server_numpy::kBase))),
                 *server));
  for (size_t round = 0; round < server_numpy::kRounds; ++round) {
    const double* const deltas = server_numpy::kDeltas + round * server_numpy::kSize;
    ASSERT_OK_AND_ASSIGN(state, NextState(state, *server, server_numpy::kRate,
                                          std::vector<float>(deltas, deltas + server_numpy::kSize)));
  }
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < server_numpy::kSize; ++i) EXPECT_NEAR(WeightsIn(state)[i], wanted[i], 1e-6 * largest) << i;
}

TEST(ServerRules, ThreeRounds_AreWhatNumPyComputesInDouble) {
  ExpectNumPys("fedavgm", {{"beta", server_numpy::kBeta1}}, server_numpy::kMomentum);
  ExpectNumPys("fedadagrad", kAdagradOptions, server_numpy::kAdagrad);
  ExpectNumPys("fedyogi", kYogiOptions, server_numpy::kYogi);
}

TEST(ServerRules, InTheirLimits_AreFederatedAveragingToTheBit) {
  const std::map<std::string, SettingValues> limits = {
      {"fedavgm", {{"beta", 0.0}}},
      {"fedyogi", {{"beta1", 0.0}, {"beta2", 1.0}, {"tau", 1.0}, {"initial_accumulator", 0.0}}}};
  ASSERT_OK_AND_ASSIGN(const auto averaging, ServerOf("fedavg", {}));
  for (const auto& [algorithm, options] : limits) {
    ASSERT_OK_AND_ASSIGN(const auto server, ServerOf(algorithm, options));
    Draws draws(StreamFor(6, "", Purpose::kSynthesize), 0);
    std::vector<float> values(4099);
    for (float& value : values) value = static_cast<float>(draws.Normal());
    ASSERT_OK_AND_ASSIGN(ServerState one, FirstState(ModelWith(values), *averaging));
    ASSERT_OK_AND_ASSIGN(ServerState other, FirstState(ModelWith(values), *server));
    for (int round = 0; round < 3; ++round) {
      for (float& value : values) value = static_cast<float>(draws.Normal()) * 0.01f;
      ASSERT_OK_AND_ASSIGN(one, NextState(one, *averaging, 1, values));
      ASSERT_OK_AND_ASSIGN(other, NextState(other, *server, 1, values));
      EXPECT_EQ(one.digest, other.digest) << algorithm << " " << round;
    }
  }
}

TEST(ServerRules, Beta1_KeepsThePaceOfTheRoundsBefore) {
  for (const char* algorithm : {"fedadagrad", "fedyogi"}) {
    EXPECT_EQ(After(algorithm, {{"beta1", 0.0}}, {0.5f, 0}), After(algorithm, {{"beta1", 0.0}}, {0.5f}));
    EXPECT_GT(After(algorithm, {{"beta1", 0.5}}, {0.5f, 0}), After(algorithm, {{"beta1", 0.5}}, {0.5f}));
  }
}

TEST(ServerRules, Beta2_RemembersHowLargeDeltasWere) {
  const auto second = [](double beta2) {
    const SettingValues options = {{"beta1", 0.0}, {"beta2", beta2}, {"initial_accumulator", 0.0}};
    return After("fedyogi", options, {100, 0.5f}) - After("fedyogi", options, {100});
  };
  // v falls by the new square alone, and not to it as Adam's.
  EXPECT_NEAR(second(0), 0.5 / std::sqrt(1e4 - 0.25), 1e-5);
  EXPECT_NEAR(second(0.75), 0.5 / std::sqrt(0.25 * 1e4 - 0.25 * 0.25), 1e-5);
}

TEST(ServerRules, Tau_BoundsHowMuchSmallDeltasAreRaised) {
  for (const double tau : {1e-3, 2.0}) {
    EXPECT_NEAR(After("fedadagrad", {{"tau", tau}, {"initial_accumulator", 0.0}}, {0.5f}), 0.5 / (0.5 + tau), 1e-6);
    EXPECT_NEAR(After("fedyogi", {{"beta1", 0.0}, {"beta2", 0.0}, {"tau", tau}, {"initial_accumulator", 0.0}}, {0.5f}),
                0.5 / (0.5 + tau), 1e-6);
  }
}

TEST(ServerRules, InitialAccumulator_SlowsTheFirstRounds) {
  for (const double first : {0.0, 9.0}) {
    EXPECT_NEAR(After("fedadagrad", {{"initial_accumulator", first}}, {1}), 1 / (std::sqrt(first + 1) + 1e-3), 1e-6);
    const double v = first == 0 ? 0.5 : 9 - 0.5;
    EXPECT_NEAR(After("fedyogi", {{"beta1", 0.0}, {"beta2", 0.5}, {"initial_accumulator", first}}, {1}),
                1 / (std::sqrt(v) + 1e-3), 1e-6);
  }
}

}  // namespace
}  // namespace rivulet
