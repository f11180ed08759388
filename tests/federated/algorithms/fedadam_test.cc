// FedAdam compared with NumPy in double, its limit that is federated averaging, and the effect of each option.
#include "tests/federated/algorithms/reference/fedadam.inc"

#include <cmath>
#include <limits>

#include "federated/random/streams.h"
#include "tests/federated/algorithms/server_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::ModelWith;
using testing::ServerOf;
using testing::WeightsIn;

// One weight that begins at 1, after these deltas.
float WeightAfter(const SettingValues& options, std::vector<float> deltas, double learning_rate = 0.1) {
  const auto server = ServerOf("fedadam", options);
  EXPECT_OK(server);
  StatusOr<ServerState> state = FirstState(ModelWith(std::vector<float>{1}), **server);
  for (const float delta : deltas) {
    state = NextState(*state, **server, learning_rate, std::span(&delta, 1));
    EXPECT_OK(state);
  }
  return WeightsIn(*state)[0];
}

TEST(FedAdam, ThreeRounds_AreWhatNumPyComputesInDouble) {
  namespace numpy = fedadam_reference;
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOf("fedadam", {{"beta1", numpy::kBeta1},
                                                               {"beta2", numpy::kBeta2},
                                                               {"tau", numpy::kTau},
                                                               {"initial_accumulator", numpy::kFirst}}));
  const std::vector<float> base(std::begin(numpy::kBase), std::end(numpy::kBase));
  ASSERT_OK_AND_ASSIGN(ServerState state, FirstState(ModelWith(base), *server));
  for (size_t round = 0; round < numpy::kRounds; ++round) {
    std::vector<float> delta;
    for (size_t i = 0; i < numpy::kSize; ++i)
      delta.push_back(static_cast<float>(numpy::kDeltas[round * numpy::kSize + i]));
    ASSERT_OK_AND_ASSIGN(state, NextState(state, *server, numpy::kRate, delta));
    for (size_t i = 0; i < numpy::kSize; ++i) {
      const double expected = numpy::kModels[round * numpy::kSize + i];
      EXPECT_NEAR(WeightsIn(state)[i], expected, 1e-6 * std::max(0.1, std::abs(expected))) << round << " " << i;
    }
  }
  for (size_t i = 0; i < numpy::kSize; ++i) {
    EXPECT_NEAR(state.flat("server/m")[i], numpy::kMoment[i], 1e-6 * std::abs(numpy::kMoment[i]));
    EXPECT_NEAR(state.flat("server/v")[i], numpy::kSquares[i], 1e-6 * numpy::kSquares[i]);
  }
}

TEST(FedAdam, InTheLimit_IsFederatedAveragingToTheBit) {
  ASSERT_OK_AND_ASSIGN(const auto averaging, ServerOf("fedavg", {}));
  ASSERT_OK_AND_ASSIGN(
      const auto adam,
      ServerOf("fedadam", {{"beta1", 0.0}, {"beta2", 1.0}, {"tau", 1.0}, {"initial_accumulator", 0.0}}));
  Draws draws(StreamFor(5, "", Purpose::kSynthesize), 0);
  std::vector<float> base(4099);
  for (float& value : base) value = static_cast<float>(draws.Normal());
  ASSERT_OK_AND_ASSIGN(ServerState one, FirstState(ModelWith(base), *averaging));
  ASSERT_OK_AND_ASSIGN(ServerState other, FirstState(ModelWith(base), *adam));
  for (int round = 0; round < 5; ++round) {
    for (float& value : base) value = static_cast<float>(draws.Normal()) * 0.01f;
    ASSERT_OK_AND_ASSIGN(one, NextState(one, *averaging, 1, base));
    ASSERT_OK_AND_ASSIGN(other, NextState(other, *adam, 1, base));
    EXPECT_EQ(one.digest, other.digest) << round;
  }
}

TEST(FedAdam, Beta1_KeepsThePaceOfTheRoundsBefore) {
  // A round without news: what moves is what was kept.
  EXPECT_EQ(WeightAfter({{"beta1", 0.0}}, {0.5f, 0}), WeightAfter({{"beta1", 0.0}}, {0.5f}));
  EXPECT_GT(WeightAfter({{"beta1", 0.5}}, {0.5f, 0}), WeightAfter({{"beta1", 0.5}}, {0.5f}));
}

TEST(FedAdam, Beta2_RemembersHowLargeDeltasWere) {
  const SettingValues still = {{"beta1", 0.0}, {"beta2", 0.0}}, lasting = {{"beta1", 0.0}, {"beta2", 0.9}};
  const auto second = [](const SettingValues& options) {
    return WeightAfter(options, {100, 0.5f}) - WeightAfter(options, {100});
  };
  EXPECT_NEAR(second(still), 0.1, 1e-3);  // learning rate × d / |d|
  EXPECT_LT(second(lasting), 0.01);
}

TEST(FedAdam, Tau_BoundsHowMuchSmallDeltasAreRaised) {
  const auto moved = [](double tau) {
    return WeightAfter({{"beta1", 0.0}, {"beta2", 0.0}, {"tau", tau}, {"initial_accumulator", 0.0}}, {0.5f}) - 1;
  };
  EXPECT_NEAR(moved(1e-3), 0.1 * 0.5 / (0.5 + 1e-3), 1e-6);
  EXPECT_NEAR(moved(2), 0.1 * 0.5 / (0.5 + 2), 1e-6);
}

TEST(FedAdam, InitialAccumulator_SlowsTheFirstRounds) {
  const auto moved = [](double first) {
    return WeightAfter({{"beta1", 0.0}, {"beta2", 0.5}, {"initial_accumulator", first}}, {1}) - 1;
  };
  EXPECT_NEAR(moved(0), 0.1 / (std::sqrt(0.5) + 1e-3), 1e-6);
  EXPECT_NEAR(moved(9), 0.1 / (std::sqrt(5.0) + 1e-3), 1e-6);
}

TEST(FedAdam, Statistics_AreAveraged) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{1}}, Segment::kTrainable},
                                    {"variance", {DType::kFloat32, Shape{1}}, Segment::kShared}};
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOf("fedadam", {}));
  ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(std::make_shared<const Model>(layout), *server));
  ASSERT_OK_AND_ASSIGN(const ServerState next, NextState(first, *server, 0.5, std::vector<float>{0.25f, 0.25f}));
  EXPECT_EQ(next.model->tensor(*layout->Find("variance")).flat<float>()[0], 0.25f);
  EXPECT_GT(next.model->tensor(*layout->Find("w")).flat<float>()[0], 0.25f);
  EXPECT_EQ(next.flat("server/m").size(), 1u);
}

TEST(FedAdam, WhatIsNotFinite_IsRefusedNamingTheTensor) {
  ASSERT_OK_AND_ASSIGN(const auto server, ServerOf("fedadam", {}));
  ASSERT_OK_AND_ASSIGN(const ServerState first, FirstState(ModelWith(std::vector<float>{1}), *server));
  // 1e38 is a float and its square is none: the square alone would stop the weight for ever.
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e38f}) {
    EXPECT_THAT(NextState(first, *server, 0.1, std::span(&bad, 1)),
                StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("not finite in 'w'")));
  }
}

}  // namespace
}  // namespace rivulet
