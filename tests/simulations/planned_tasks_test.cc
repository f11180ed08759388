// The number of training threads follows from the tasks' planned memory, and changes no bit.
#include "simulations/clients/planned_tasks.h"

#include <cmath>
#include <set>

#include "federated/random/streams.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

class PlannedTasksTest : public SimulatorTest {
 protected:
  StatusOr<PlannedTasks> Plan(const Scenario& scenario) {
    RunSetup setup(scenario);
    RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
    RIVULET_ASSIGN_OR_RETURN(clients_, VirtualClients::Create(setup, plan->keeps_state()));
    return PlannedTasks::Create(*clients_, plan);
  }
  std::unique_ptr<VirtualClients> clients_;
};

TEST_F(PlannedTasksTest, Threads_AsManyAsHaveRoomAndAtLeastOne) {
  const auto planned = Plan(SmallScenario());
  ASSERT_OK(planned);
  EXPECT_GT(planned->thread_bytes(), 0);
  EXPECT_EQ(planned->Memory(3) - planned->Memory(2), planned->thread_bytes());
  EXPECT_EQ(planned->ThreadsWithin(planned->Memory(3), 8), 3);
  EXPECT_EQ(planned->ThreadsWithin(planned->Memory(4) - 1, 8), 3);
  EXPECT_EQ(planned->ThreadsWithin(planned->Memory(100), 8), 8);
  EXPECT_EQ(planned->ThreadsWithin(0, 8), 1);
}

TEST_F(PlannedTasksTest, FewerThreadsThanWanted_AreToldInASentenceAndAsManyAreNot) {
  const auto planned = Plan(SmallScenario());
  ASSERT_OK(planned);
  std::string told;
  const auto note = [&](const std::string& sentence) { told += sentence; };
  EXPECT_EQ(ThreadsToTrain(planned, 4, planned->Memory(4), note), 4);
  EXPECT_EQ(told, "");
  EXPECT_EQ(ThreadsToTrain(planned, 4, planned->Memory(1), note), 1);
  EXPECT_THAT(told, HasSubstr("trained by 1 thread and not by 4"));
  // Of a machine that has anything left at all, these few kilobytes have room.
  EXPECT_EQ(ThreadsToTrain(planned, 4, 0, note), 4);
  EXPECT_EQ(ThreadsToTrain(absl::UnknownError("no plan"), 4, 1, note), 4);
}

TEST_F(PlannedTasksTest, Cost_OfExamplesTimesEpochsAndOfMeasuringAboutAThird) {
  Scenario scenario = SmallScenario();
  scenario.evaluation.federated_every = 1;
  const auto once = Plan(scenario);
  scenario.client.epochs *= 4;
  const auto four = Plan(scenario);
  ASSERT_OK(once);
  ASSERT_OK(four);
  const auto train = static_cast<double>(once->MeanCost(TaskKind::kTrain, 100));
  EXPECT_NEAR(static_cast<double>(once->MeanCost(TaskKind::kTrain, 200)), 2 * train, 2);
  EXPECT_NEAR(static_cast<double>(four->MeanCost(TaskKind::kTrain, 100)), 4 * train, 0.01 * train);
  EXPECT_GT(train, 100.0 * 784 * 10);  // of a linear model of images, each of whose weights is used for each example
  const auto measure = static_cast<double>(four->MeanCost(TaskKind::kEvaluate, 100));
  EXPECT_GT(measure, 0);
  EXPECT_LT(measure, train);
  EXPECT_GE(once->MeanCost(TaskKind::kTrain, 0), 1);
}

TEST_F(PlannedTasksTest, WorkInPart_CostsAsManyEpochsAsTheTaskDraws) {
  Scenario scenario = SmallScenario();
  scenario.client.epochs = 5;
  const auto whole = Plan(scenario);
  scenario.client.partial_work = 1;
  const auto in_part = Plan(scenario);
  ASSERT_OK(whole);
  ASSERT_OK(in_part);
  const auto once = static_cast<double>(whole->MeanCost(TaskKind::kTrain, 100)) / 5;
  std::set<long> epochs;
  double sum = 0;
  constexpr int kTasks = 500;
  for (int64_t version = 0; version < kTasks; ++version) {
    Task task;
    task.base_version = version;
    task.stream_key = ClientKey(1, "client-00003");
    EXPECT_EQ(whole->Cost(task, 100), whole->MeanCost(TaskKind::kTrain, 100));
    const double times = static_cast<double>(in_part->Cost(task, 100)) / once;
    EXPECT_NEAR(times, std::round(times), 1e-6);
    epochs.insert(std::lround(times));
    sum += times;
  }
  EXPECT_THAT(epochs, ::testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_NEAR(static_cast<double>(in_part->MeanCost(TaskKind::kTrain, 100)) / once, 3, 1e-6);
  EXPECT_NEAR(sum / kTasks, 3, 0.25);
}

// A version brings every model, and an update holds the change of one.
TEST_F(PlannedTasksTest, BytesOfModelsToChooseFrom_AllDownAndOneUp) {
  Scenario scenario = SmallScenario();
  const auto bytes = [&](int64_t clusters) {
    scenario.algorithm = {.name = "ifca", .settings = {{"clusters", clusters}}};
    const auto plan = RunSetup(scenario).plan();
    EXPECT_OK(plan);
    const auto planned = BytesOfTask(**plan);
    EXPECT_OK(planned);
    return *planned;
  };
  const PlannedBytes one = bytes(1), four = bytes(4);
  EXPECT_NEAR(static_cast<double>(four.down), 4.0 * static_cast<double>(one.down),
              0.01 * static_cast<double>(one.down));
  EXPECT_EQ(four.up, one.up);
}

// Each further model is looked at once by each example, lies in memory once and is summed by each thread.
TEST_F(PlannedTasksTest, ModelsToChooseFrom_CountEach) {
  Scenario scenario = SmallScenario();
  const auto average = Plan(scenario);
  ASSERT_OK(average);
  scenario.algorithm = {.name = "ifca", .settings = {{"clusters", int64_t{2}}}};
  const auto two = Plan(scenario);
  ASSERT_OK(two);
  scenario.algorithm.settings["clusters"] = int64_t{4};
  const auto four = Plan(scenario);
  ASSERT_OK(four);
  const auto cost = [](const auto& planned) { return static_cast<double>(planned->MeanCost(TaskKind::kTrain, 1000)); };
  const double look = (cost(four) - cost(two)) / 2;
  EXPECT_GT(look, 1000.0 * 784 * 10);
  EXPECT_NEAR(cost(two) - cost(average), 2 * look, 0.1 * look);
  const auto shared = [](const auto& planned) { return planned->Memory(1) - planned->thread_bytes(); };
  constexpr int64_t kModel = 7850 * 4;
  EXPECT_GE(shared(two) - shared(average), kModel);
  EXPECT_GE(shared(four) - shared(two), 2 * kModel);
  EXPECT_GE(four->thread_bytes() - two->thread_bytes(), 2 * kModel * 2) << "sums have 64 bits";
}

TEST_F(PlannedTasksTest, SimulationInLittleMemory_SaysSoAndComesToTheSameBits) {
  std::string told;
  const auto run = [&](const std::string& db, int64_t memory) -> StatusOr<Digest> {
    SimulationOptions options{.scenario = SmallScenario(), .db_path = Path(db), .workers = 4};
    options.memory = memory;
    options.note = [&](const std::string& sentence) { told += sentence; };
    RIVULET_ASSIGN_OR_RETURN(const auto simulation, Simulation::Create(std::move(options)));
    RIVULET_ASSIGN_OR_RETURN(const SimulationResult result, simulation->Run());
    return result.model->ComputeDigest();
  };
  const auto plenty = run("plenty.sqlite", 0);
  ASSERT_OK(plenty);
  EXPECT_EQ(told, "");
  const auto little = run("little.sqlite", 1000);
  ASSERT_OK(little);
  EXPECT_THAT(told, HasSubstr("trained by 1 thread and not by 4"));
  EXPECT_EQ(*little, *plenty);
}

}  // namespace
}  // namespace rivulet
