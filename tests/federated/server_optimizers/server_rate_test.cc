// The server's learning-rate schedules, and the averaged version that is evaluated.
#include "federated/server_optimizers/server_rate.h"

#include <cmath>
#include <numbers>

#include "federated/server_optimizers/averaged.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

TEST(ServerRate, Schedules_AreWhatTheirFormulasSay) {
  ServerConfig server;
  server.learning_rate = 0.5;
  for (const int64_t version : {1, 7, 1000}) EXPECT_EQ(ServerLearningRate(server, version), 0.5);
  server.schedule = {.kind = "step", .settings = {{"length", int64_t{3}}, {"decay_rate", 0.25}}};
  EXPECT_EQ(ServerLearningRate(server, 3), 0.5);
  EXPECT_EQ(ServerLearningRate(server, 4), 0.125);
  EXPECT_EQ(ServerLearningRate(server, 10), 0.5 / 64);
  server.schedule = {.kind = "inverse", .settings = {{"length", int64_t{4}}}};
  EXPECT_EQ(ServerLearningRate(server, 1), 0.5);
  EXPECT_EQ(ServerLearningRate(server, 5), 0.25);
  EXPECT_EQ(ServerLearningRate(server, 13), 0.125);
  server.schedule = {.kind = "cosine", .settings = {{"length", int64_t{20}}, {"end", 0.1}}};
  for (int64_t version = 1; version <= 30; ++version) {
    const double p = std::min(1.0, static_cast<double>(version - 1) / 20);
    EXPECT_NEAR(ServerLearningRate(server, version), 0.5 * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi * p)) / 2),
                1e-15);
  }
}

TEST(ServerRate, Warmup_RisesInEqualStepsBeforeTheDecay) {
  ServerConfig server;
  server.learning_rate = 2;
  server.schedule = {.kind = "inverse", .warmup = 4, .settings = {{"length", int64_t{1}}}};
  std::vector<double> rates;
  for (int64_t version = 1; version <= 6; ++version) rates.push_back(ServerLearningRate(server, version));
  EXPECT_EQ(rates, (std::vector<double>{0.5, 1, 1.5, 2, 2, 1}));
}

TEST(ServerAverage, OfVersions_IsMeasuredAndTheirsStay) {
  const VariableSpec variables[] = {{"statistics", {DType::kFloat32, Shape{1}}, Segment::kShared},
                                    {"w", {DType::kFloat32, Shape{2}}, Segment::kTrainable}};
  const auto model = std::make_shared<Model>(std::make_shared<const ModelLayout>(*ModelLayout::Create(variables)));
  const Slice &w = *model->layout().Find("w"), &statistics = *model->layout().Find("statistics");
  model->tensor(w).flat<float>()[0] = 1;
  ASSERT_OK_AND_ASSIGN(const auto plain, ServerOptimizer::Create({"momentum"}));
  ASSERT_OK_AND_ASSIGN(const auto averaged, ServerOptimizer::Create({"momentum"}, 0.75));
  ASSERT_OK_AND_ASSIGN(ServerState without, FirstState(model, *plain));
  ASSERT_OK_AND_ASSIGN(ServerState with, FirstState(model, *averaged));
  EXPECT_EQ(MeasuredModel(without), without.model);
  EXPECT_THAT(with.flat(kServerAverage), ::testing::ElementsAre(1, 0));
  std::vector<double> a = {1, 0};
  for (int version = 1; version <= 3; ++version) {
    const std::vector<float> mean = {1, -0.5f, 2};
    ASSERT_OK_AND_ASSIGN(without, NextState(without, *plain, 0.5, mean));
    ASSERT_OK_AND_ASSIGN(with, NextState(with, *averaged, 0.5, mean));
    EXPECT_OK(CheckState(with, *averaged));
    EXPECT_EQ(with.digest, without.digest);
    const auto measured = MeasuredModel(with);
    for (size_t i = 0; i < 2; ++i) {
      a[i] = 0.75 * a[i] + 0.25 * static_cast<double>(with.model->tensor(w).flat<float>()[i]);
      EXPECT_NEAR(measured->tensor(w).flat<float>()[i], a[i], 1e-6);
    }
    EXPECT_EQ(measured->tensor(statistics).flat<float>()[0], static_cast<float>(version));
  }
}

}  // namespace
}  // namespace rivulet
