// Many clients at once over the emulated back end: each as the trainer on the host trains it, within what a sum in
// another order can move, and to the bit the same whoever else is trained beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/gpu_trainer.h"
#include "client/pass_programs.h"
#include "engine/gpu/emulated/emulated_backend.h"
#include "proto/federated/plan.pb.h"
#include "proto/graph/example.pb.h"
#include "tests/client/gpu/trained_clients.h"
#include "tests/client/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::Came;
using testing::Client;
using testing::ClientsOf;
using testing::DigitExample;
using testing::DigitRecords;
using testing::ExpectNear;
using testing::ExpectSameBits;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::TrainAll;

class GpuTrainerTest : public ::testing::Test {
 protected:
  ~GpuTrainerTest() override { gpu::SetEmulatedSettings({}); }

  static TrainingDevice Device(int most_lanes = 64) {
    auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0);
    EXPECT_OK(device);
    return {*device, most_lanes};
  }
  static std::unique_ptr<Trainer> OnDevice(const std::shared_ptr<const Plan>& plan, int most_lanes = 64) {
    auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan), Device(most_lanes));
    EXPECT_OK(trainer);
    return *std::move(trainer);
  }
  static std::unique_ptr<Trainer> OnHost(const std::shared_ptr<const Plan>& plan) {
    auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
    EXPECT_OK(trainer);
    return *std::move(trainer);
  }

  // Near the host, and the same for any number of lanes; a trainer keeps its memory and its graphs from group to group.
  static void ExpectAnyLanes(const Scenario& scenario, const std::vector<int>& sizes, float tolerance = 2e-5f) {
    const auto plan = LocalPlan(scenario);
    const auto base = PatternModel(*plan);
    const std::vector<Client> clients = ClientsOf(*plan, sizes);
    const std::vector<Came> one = TrainAll(*OnDevice(plan), clients, *base, 1);
    ExpectNear(one, TrainAll(*OnHost(plan), clients, *base, 1), tolerance);
    const auto trainer = OnDevice(plan);
    for (const size_t group : {2, 5, 3, 5}) ExpectSameBits(TrainAll(*trainer, clients, *base, group), one);
  }
};

TEST_F(GpuTrainerTest, EqualSizes_AreTheHostsTrainingForAnyLanes) {
  ExpectAnyLanes(LocalScenario(), {20, 20, 20, 20, 20});
}

// Whole batches, a rest, fewer than a batch, one example, and one that goes on when all others are through.
TEST_F(GpuTrainerTest, UnlikeSizes_AreTheHostsTrainingForAnyLanes) {
  ExpectAnyLanes(LocalScenario(), {12, 7, 1, 45, 10, 22, 3});
}

TEST_F(GpuTrainerTest, WithoutShuffle_IsTheHostsTrainingForAnyLanes) {
  Scenario scenario = LocalScenario();
  scenario.client.shuffle = false;
  ExpectAnyLanes(scenario, {12, 30, 5});
}

TEST_F(GpuTrainerTest, Momentum_HasASlotOfEachLane) {
  Scenario scenario = LocalScenario();
  scenario.client.optimizer.kind = "momentum";
  scenario.client.optimizer.momentum = 0.9;
  ExpectAnyLanes(scenario, {12, 30, 5});
}

TEST_F(GpuTrainerTest, FedProx_ReadsTheBaseThatLanesShare) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "fedprox";
  scenario.algorithm.settings = {{"mu", 0.1}};
  ExpectAnyLanes(scenario, {12, 30, 5});
}

TEST_F(GpuTrainerTest, TwoPasses_AreTheHostsForAnyLanes) {
  proto::Plan message;
  ASSERT_TRUE(message.ParseFromString(testing::PlanBytes(LocalScenario())));
  proto::LocalProgramDef& program = *message.mutable_programs(0);
  *program.add_passes() = program.passes(0);
  program.mutable_passes(0)->set_max_steps(4);
  program.mutable_passes(1)->set_max_steps(1);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan, Plan::Open(message.SerializeAsString()));
  const auto base = PatternModel(*plan);
  const std::vector<Client> clients = ClientsOf(*plan, {27, 9, 60, 12});
  const std::vector<Came> one = TrainAll(*OnDevice(plan), clients, *base, 1);
  ExpectNear(one, TrainAll(*OnHost(plan), clients, *base, 1), 2e-5f);
  ExpectSameBits(TrainAll(*OnDevice(plan), clients, *base, 4), one);
}

TEST_F(GpuTrainerTest, MaxSteps_ReadNoMoreExamplesThanTheyTake) {
  proto::Plan message;
  ASSERT_TRUE(message.ParseFromString(testing::PlanBytes(LocalScenario())));
  message.mutable_programs(0)->mutable_passes(0)->set_max_steps(1);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan, Plan::Open(message.SerializeAsString()));
  const auto base = PatternModel(*plan);
  const auto decoder = ExampleDecoder::Create(plan->features());
  ASSERT_OK(decoder);
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(300));
  std::vector<Client> clients = ClientsOf(*plan, {300, 40});
  clients[0].examples = std::make_unique<DatasetExamples>(data, std::nullopt, *decoder);
  const std::vector<Came> both = TrainAll(*OnDevice(plan), clients, *base, 2);
  EXPECT_EQ(data->reads, 10);
  ExpectNear(both, TrainAll(*OnHost(plan), clients, *base, 1), 2e-5f);
}

// What clients keep, and what the server sends beside the model.
TEST_F(GpuTrainerTest, Scaffold_KeepsEachLanesOwnState) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "scaffold";
  const auto plan = LocalPlan(scenario);
  ASSERT_TRUE(plan->keeps_state());
  const auto base = PatternModel(*plan);
  ASSERT_EQ(plan->flat_names().broadcast.size(), 1u);
  AlignedBuffer control(plan->layout()->trained_bytes());
  for (size_t i = 0; i < control.size() / sizeof(float); ++i) {
    reinterpret_cast<float*>(control.data())[i] = 1e-4f * static_cast<float>(i % 13);
  }
  const AlignedBuffer* const broadcasts[] = {&control};
  std::vector<Client> clients = ClientsOf(*plan, {12, 25, 8});
  const auto host = OnHost(plan), device = OnDevice(plan);
  for (int round = 0; round < 2; ++round) {
    const std::vector<Came> expected = TrainAll(*host, clients, *base, 1, broadcasts);
    const std::vector<Came> one = TrainAll(*device, clients, *base, 1, broadcasts);
    ExpectNear(one, expected, 5e-5f);
    ExpectSameBits(TrainAll(*device, clients, *base, 3, broadcasts), one);
    for (size_t i = 0; i < clients.size(); ++i) clients[i].state = expected[i].state;
  }
  clients[1].state[20] ^= 1;
  const std::vector<Came> damaged = TrainAll(*device, clients, *base, 3, broadcasts);
  EXPECT_THAT(damaged[1].status, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_OK(damaged[0].status);
  EXPECT_OK(damaged[2].status);
}

TEST_F(GpuTrainerTest, Evaluation_MeasuresEachLane) {
  Scenario scenario = LocalScenario();
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 2;
  const auto plan = LocalPlan(scenario);
  ASSERT_NE(plan->program(TaskKind::kEvaluate), nullptr);
  const auto base = PatternModel(*plan);
  const std::vector<Client> clients = ClientsOf(*plan, {12, 70, 5}, TaskKind::kEvaluate);
  const std::vector<Came> one = TrainAll(*OnDevice(plan), clients, *base, 1);
  ExpectNear(one, TrainAll(*OnHost(plan), clients, *base, 1), 0);
  ExpectSameBits(TrainAll(*OnDevice(plan), clients, *base, 3), one);
}

TEST_F(GpuTrainerTest, LaneThatFails_HarmsNoOther) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  std::vector<Client> clients = ClientsOf(*plan, {30, 0, 12, 8});
  const auto decoder = ExampleDecoder::Create(plan->features());
  ASSERT_OK(decoder);
  std::vector<std::string> records = DigitRecords(40);
  records[33] = DigitExample(std::string(784, '\0'), 12);
  clients[2].examples =
      std::make_unique<DatasetExamples>(std::make_shared<MemoryDataset>(records), std::nullopt, *decoder);
  const auto trainer = OnDevice(plan);
  const std::vector<Came> all = TrainAll(*trainer, clients, *base, 4);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[1].status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'client-00001' has no examples")));
  EXPECT_THAT(all[2].status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("record 33")));
  const std::vector<Came> alone = TrainAll(*trainer, clients, *base, 1);
  ExpectSameBits({all[0], all[3]}, {alone[0], alone[3]});
}

// After a first group no memory is taken from the driver, and what one group left in it moves no other.
TEST_F(GpuTrainerTest, MoreAndFewerLanes_UseTheMemoryThatIsThere) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, {40, 20, 10, 5});
  const std::vector<Came> all = TrainAll(*trainer, clients, *base, 4);
  const int64_t allocations = gpu::CountEmulated().allocations;
  ExpectSameBits(TrainAll(*trainer, clients, *base, 2), all);
  ExpectSameBits(TrainAll(*trainer, clients, *base, 4), all);
  EXPECT_EQ(gpu::CountEmulated().allocations, allocations);
}

TEST_F(GpuTrainerTest, Lanes_ArePlannedFromTheDevicesMemory) {
  const auto plan = LocalPlan();
  EXPECT_EQ(OnDevice(plan, 7)->MostLanes(TaskKind::kTrain, 50), 7);
  const auto lanes_in = [&](size_t bytes) {
    gpu::SetEmulatedSettings({.memory_bytes = bytes});
    return OnDevice(plan)->MostLanes(TaskKind::kTrain, 50);
  };
  const int few = lanes_in(4'000'000);
  EXPECT_GE(few, 2);
  EXPECT_LT(few, 64);
  EXPECT_EQ(lanes_in(100'000'000), 64);
  // As many as were planned go into it.
  gpu::SetEmulatedSettings({.memory_bytes = 4'000'000});
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, std::vector<int>(static_cast<size_t>(few), 50));
  EXPECT_EQ(TrainAll(*trainer, clients, *PatternModel(*plan), clients.size()).size(), clients.size());
}

TEST_F(GpuTrainerTest, TooManyLanes_AreRefusedAndFewerStillTrained) {
  gpu::SetEmulatedSettings({.memory_bytes = 4'000'000});
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, std::vector<int>(100, 50));
  std::vector<LaneTask> lanes;
  for (const Client& client : clients) lanes.push_back({&client.task, client.name, base.get(), client.examples.get()});
  EXPECT_THAT(trainer->Train(lanes),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("100 lanes of plan 'local'")));
  ASSERT_OK_AND_ASSIGN(const auto results, trainer->Train(std::span(lanes).first(2)));
  EXPECT_OK(results[0].status);
}

TEST_F(GpuTrainerTest, TasksThatDoNotGoTogether_AreRefused) {
  const auto plan = LocalPlan();
  const auto trainer = OnDevice(plan);
  const auto base = PatternModel(*plan), other = PatternModel(*plan);
  std::vector<Client> clients = ClientsOf(*plan, {10, 10});
  std::vector<LaneTask> lanes;
  for (const Client& client : clients) lanes.push_back({&client.task, client.name, base.get(), client.examples.get()});
  lanes[1].base = other.get();
  EXPECT_THAT(trainer->Train(lanes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not alike")));
  lanes[1].base = base.get();
  ++clients[1].task.base_version;
  EXPECT_THAT(trainer->Train(lanes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not alike")));
  EXPECT_THAT(trainer->Train({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no task")));
}

TEST_F(GpuTrainerTest, Cancelled_StopsAndTrainsAgain) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, {30});
  const LaneTask lane{&clients[0].task, clients[0].name, base.get(), clients[0].examples.get()};
  const CancellationToken cancel = CancellationToken::Create();
  cancel.Cancel();
  ASSERT_OK_AND_ASSIGN(const auto results, trainer->Train({&lane, 1}, cancel));
  EXPECT_THAT(results[0].status, StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(const auto again, trainer->Train({&lane, 1}));
  EXPECT_OK(again[0].status);
}

TEST_F(GpuTrainerTest, KernelThatFails_IsToldAndTheNextTaskTrained) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, {30});
  const LaneTask lane{&clients[0].task, clients[0].name, base.get(), clients[0].examples.get()};
  gpu::SetEmulatedSettings({.launches_until_failure = 20});
  ASSERT_OK_AND_ASSIGN(const auto failed, trainer->Train({&lane, 1}));
  EXPECT_THAT(failed[0].status, StatusIs(absl::StatusCode::kInternal, HasSubstr("asked for")));
  gpu::SetEmulatedSettings({});
  ASSERT_OK_AND_ASSIGN(const auto again, trainer->Train({&lane, 1}));
  EXPECT_OK(again[0].status);
}

}  // namespace
}  // namespace rivulet
