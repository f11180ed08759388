// FedProx: at mu = 0 it is federated averaging; else what NumPy computes in float64 (reference/fedprox.py).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "client/training/pass_programs.h"
#include "federated/aggregation/aggregation.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::Trained;

Scenario ProxScenario(double mu, const std::string& preset = "logistic_regression") {
  Scenario scenario = LocalScenario();
  scenario.model.preset = preset;
  scenario.algorithm.name = "fedprox";
  scenario.algorithm.settings["mu"] = mu;
  return scenario;
}

StatusOr<Trained> TrainClient(const std::shared_ptr<const Plan>& plan, const Model& base,
                              std::vector<std::string> records, const std::string& client = "a") {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(std::move(records)), std::nullopt, decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-" + client;
  task.stream_key = ClientKey(42, client);
  return testing::TrainOne(*trainer, task, client, base, examples);
}

Trained TrainDigits(const Scenario& scenario) {
  const auto plan = testing::LocalPlan(scenario);
  auto trained = TrainClient(plan, *PatternModel(*plan), DigitRecords(27));
  EXPECT_OK(trained);
  return *std::move(trained);
}

// What the update of a step is fused with depends on the graph, and may not be seen: the limit holds on every model.
TEST(FedProx, MuZero_IsFedAvgToTheBit) {
  for (const char* preset : {"logistic_regression", "mlp", "mnist_cnn"}) {
    for (const char* kernels : {"native", "portable"}) {
      SCOPED_TRACE(fmt::format("{} {}", preset, kernels));
      Scenario prox = ProxScenario(0, preset);
      prox.run.kernels = kernels;
      prox.client.epochs = 1;
      prox.client.optimizer.learning_rate = 0.05;
      Scenario avg = prox;
      avg.algorithm = {};
      const Trained without = TrainDigits(avg), with = TrainDigits(prox);
      EXPECT_TRUE(with.delta == without.delta);  // −0 is 0
      EXPECT_EQ(with.declared, without.declared);
      EXPECT_GT(*std::max_element(with.delta.begin(), with.delta.end()), 1e-4f);  // it trained
    }
  }
}

double NormOf(const std::vector<float>& delta) {
  double squares = 0;
  for (const float value : delta) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

TEST(FedProx, Mu_PullsTowardsTheBase) {
  double before = std::numeric_limits<double>::infinity();
  for (const double mu : {0.0, 0.01, 0.5, 2.0}) {
    const double norm = NormOf(TrainDigits(ProxScenario(mu)).delta);
    EXPECT_LT(norm, before) << mu;
    before = norm;
  }
}

// The first step begins at the base, where there is nothing to pull.
TEST(FedProx, OneStep_IsFedAvgsForAnyMu) {
  for (const double mu : {0.5, 100.0}) {
    Scenario prox = ProxScenario(mu);
    prox.client.epochs = 1;
    prox.client.batch_size = 64;
    Scenario avg = prox;
    avg.algorithm = {};
    EXPECT_EQ(TrainDigits(prox).delta, TrainDigits(avg).delta);
  }
}

// What precedes the optimiser precedes its clipping too: the term is a part of the objective's gradient.
TEST(FedProx, ClippedGradients_HaveTheTermInThem) {
  Scenario clipped = ProxScenario(50);
  clipped.client.optimizer.clip_norm = 0.01;
  const Trained trained = TrainDigits(clipped);
  EXPECT_LE(NormOf(trained.delta), clipped.client.optimizer.learning_rate * 0.01 * 6 * (1 + 1e-5));
}

TEST(FedProx, OneRound_IsNumPysInDouble) {
  Scenario scenario = ProxScenario(0.3);
  scenario.client.epochs = 2;
  scenario.client.batch_size = 2;
  scenario.client.shuffle = false;
  scenario.client.optimizer.learning_rate = 0.5;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan, ComposePlan(scenario, testing::FourPixels()));
  const auto base = testing::FourPixelsBase(*plan);
  ASSERT_OK_AND_ASSIGN(const auto aggregation, Aggregation::Create(plan->aggregation()));
  for (int client = 0; client < 2; ++client) {
    std::vector<std::string> records = testing::FourPixelRecords(client, client == 0 ? 5 : 3);
    const std::string name(1, static_cast<char>('a' + client));
    ASSERT_OK_AND_ASSIGN(const Trained trained, TrainClient(plan, *base, std::move(records), name));
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(trained.delta))};
    ASSERT_OK(aggregation->Take({name, 0, {&part, 1}, trained.declared}, {.parts = {*trained.examples}}));
  }
  ASSERT_OK_AND_ASSIGN(const ServerInput input, std::move(*aggregation).Finish());

  std::ifstream file(std::string(RIVULET_SOURCE_DIR) + "/tests/federated/algorithms/reference/fedprox.txt");
  std::vector<double> wanted;
  for (double value; file >> value;) wanted.push_back(value);
  ASSERT_EQ(wanted.size(), 15u);
  ASSERT_EQ(input.parts[0].mean.size(), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(input.parts[0].mean[i], wanted[i], 1e-6 * largest) << i;
}

}  // namespace
}  // namespace rivulet
