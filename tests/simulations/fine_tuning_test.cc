// Versions that the server trains on its own data: their values, which are the same in every mode of the run.
#include "simulations/fine_tuning.h"

#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class FineTuningTest : public SimulatorTest {
 protected:
  Scenario TunedScenario() {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 4;
    scenario.server.fine_tune = {.data = WriteRecords("server.tfrecord", DigitRecords(30, 4)), .learning_rate = 0.05};
    return scenario;
  }
};

TEST_F(FineTuningTest, AnyWorkersResumedAndReplayed_SameBits) {
  const Scenario scenario = TunedScenario();
  const Trace one = Simulate(scenario, 1, "1.sqlite");
  ASSERT_OK(one.status);
  EXPECT_EQ(Simulate(scenario, 3, "3.sqlite").digests, one.digests);
  Simulate(scenario, 2, "cut.sqlite", "", 2);
  EXPECT_EQ(Simulate(scenario, 2, "cut.sqlite", "latest").final_digest, one.final_digest);
  EXPECT_OK(Replay({.scenario = scenario, .db_path = Path("1.sqlite"), .run = "latest", .workers = 2}).status());
  Scenario untuned = scenario;
  untuned.server.fine_tune = {};
  EXPECT_NE(Simulate(untuned, 2, "untuned.sqlite").digests, one.digests);
}

TEST_F(FineTuningTest, WithoutAStep_NoBitIsMoved) {
  Scenario scenario = TunedScenario();
  scenario.server.fine_tune.learning_rate = 0;
  const Trace still = Simulate(scenario, 2, "still.sqlite");
  scenario.server.fine_tune = {};
  EXPECT_EQ(still.digests, Simulate(scenario, 2, "none.sqlite").digests);
}

// One client of all records that trains twice is one that trains once, and then the server on the same.
TEST_F(FineTuningTest, OnTheOnlyClientsData_IsAsIfItTrainedLonger) {
  Scenario scenario = SmallScenario();
  scenario.run.rounds = 1;
  scenario.data.partition.clients = scenario.server.clients_per_round = 1;
  scenario.client.shuffle = false;
  const auto weights = [&](const std::string& db) {
    SimulationOptions options;
    options.scenario = scenario;
    options.db_path = Path(db);
    auto simulation = Simulation::Create(std::move(options));
    EXPECT_OK(simulation);
    const auto result = (*simulation)->Run();
    EXPECT_OK(result);
    std::vector<float> values;
    for (const Slice& slice : result->model->layout().slices()) {
      const auto tensor = result->model->tensor(slice).flat<float>();
      values.insert(values.end(), tensor.begin(), tensor.end());
    }
    return values;
  };
  const std::vector<float> once = weights("once.sqlite");
  scenario.server.fine_tune = {.data = scenario.data.train, .batch_size = 7, .learning_rate = 0.1};
  const std::vector<float> tuned = weights("tuned.sqlite");
  scenario.server.fine_tune = {};
  scenario.client.epochs = 2;
  const std::vector<float> twice = weights("twice.sqlite");
  double largest = 0, apart = 0, moved = 0;
  for (size_t i = 0; i < twice.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(twice[i])));
    apart = std::max(apart, std::abs(static_cast<double>(twice[i]) - tuned[i]));
    moved = std::max(moved, std::abs(static_cast<double>(twice[i]) - once[i]));
  }
  // But for the sum of one update, which is rounded, and the order of the records, which a partition deals.
  EXPECT_LT(apart, 0.3 * moved);
  EXPECT_GT(moved, 0.01 * largest);
}

TEST_F(FineTuningTest, WhatCannotBe_IsRefused) {
  Scenario scenario = TunedScenario();
  scenario.server.fine_tune.data = Path("nothing.tfrecord");
  EXPECT_THAT(Simulate(scenario, 1, "a.sqlite").status, StatusIs(absl::StatusCode::kNotFound));
  scenario = TunedScenario();
  scenario.model.preset = "mlp";
  scenario.model.personal = {"dense3/*"};
  scenario.algorithm.name = "fedper";
  scenario.evaluation.every = 0;
  EXPECT_THAT(Simulate(scenario, 1, "b.sqlite").status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server.fine_tune.data trains the whole model")));
}

}  // namespace
}  // namespace rivulet
