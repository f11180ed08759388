// Many clients at once on the emulated back end: results agree with the host trainer's up to the order of sums, and are
// the same to the bit with any other lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "client/training/update_pipeline.h"
#include "federated/codecs/codec.h"
#include "proto/federated/plan.pb.h"
#include "proto/graph/example.pb.h"
#include "tests/client/training/device/trained_clients.h"
#include "tests/client/training/local_plan.h"
#include "tests/emulated_gpu/emulated_backend.h"
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
    ExpectAnyLanes(LocalPlan(scenario), sizes, TaskKind::kTrain, tolerance);
  }
  // With what the plan's tasks bring: vectors that all of them read, and numbers of their own. What came of each alone.
  static std::vector<Came> ExpectAnyLanes(const std::shared_ptr<const Plan>& plan, const std::vector<int>& sizes,
                                          TaskKind kind = TaskKind::kTrain, float tolerance = 2e-5f) {
    const auto base = PatternModel(*plan);
    std::vector<Client> clients = ClientsOf(*plan, sizes, kind);
    for (size_t i = 0; i < clients.size(); ++i) {
      for (const std::string& name : plan->flat_names().numbers) {
        clients[i].task.numbers[name] = 0.25 * static_cast<double>(i + 1);
      }
    }
    std::vector<AlignedBuffer> vectors;
    for (size_t v = 0; v < plan->flat_names().broadcast.size(); ++v) {
      AlignedBuffer& vector = vectors.emplace_back(plan->layout()->trained_bytes());
      auto* const values = reinterpret_cast<float*>(vector.data());
      for (size_t i = 0; i < vector.size() / sizeof(float); ++i) {
        values[i] = 1e-3f * (static_cast<float>((i * 53 + v * 29) % 97) - 48);
      }
    }
    std::vector<const AlignedBuffer*> broadcasts;
    for (const AlignedBuffer& vector : vectors) broadcasts.push_back(&vector);
    const std::vector<Came> one = TrainAll(*OnDevice(plan), clients, *base, 1, broadcasts);
    ExpectNear(one, TrainAll(*OnHost(plan), clients, *base, 1, broadcasts), tolerance);
    const auto trainer = OnDevice(plan);
    for (const size_t group : {2, 5, 3, 5}) {
      ExpectSameBits(TrainAll(*trainer, clients, *base, group, broadcasts), one);
    }
    return one;
  }
  static Scenario Algorithm(const std::string& name, const SettingValues& settings = {}) {
    Scenario scenario = LocalScenario();
    scenario.algorithm.name = name;
    scenario.algorithm.settings = settings;
    return scenario;
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
  scenario.client.optimizer.settings["momentum"] = 0.9;
  ExpectAnyLanes(scenario, {12, 30, 5});
}

TEST_F(GpuTrainerTest, FedProx_ReadsTheBaseThatLanesShare) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "fedprox";
  scenario.algorithm.settings = {{"mu", 0.1}};
  ExpectAnyLanes(scenario, {12, 30, 5});
}

// A number that follows from the client alone is a scalar of its lane.
TEST_F(GpuTrainerTest, NumbersOfTasks_AreEachLanesOwn) {
  for (const Scenario& scenario : {Algorithm("agnostic"), Algorithm("fedprox", {{"mu", 0.1}, {"mu_step", 0.1}})}) {
    SCOPED_TRACE(scenario.algorithm.name);
    const auto plan = LocalPlan(scenario);
    ASSERT_FALSE(plan->flat_names().numbers.empty());
    ExpectAnyLanes(plan, {12, 30, 5, 20, 9});
  }
}

TEST_F(GpuTrainerTest, TaskWithoutItsNumber_HarmsNoOther) {
  const auto plan = LocalPlan(Algorithm("fedprox", {{"mu", 0.1}, {"mu_step", 0.1}}));
  const auto base = PatternModel(*plan);
  std::vector<Client> clients = ClientsOf(*plan, {12, 30, 5});
  for (const size_t client : {size_t{0}, size_t{2}}) {
    for (const std::string& name : plan->flat_names().numbers) clients[client].task.numbers[name] = 0.5;
  }
  const std::vector<Came> came = TrainAll(*OnDevice(plan), clients, *base, 3);
  EXPECT_OK(came[0].status);
  EXPECT_THAT(came[1].status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no number")));
  EXPECT_OK(came[2].status);
}

TEST_F(GpuTrainerTest, TwoGradients_AreTheHostsForAnyLanes) {
  for (const Scenario& scenario : {Algorithm("mime"), Algorithm("per_fedavg", {{"hessian_step", 0.01}})}) {
    SCOPED_TRACE(scenario.algorithm.name);
    const auto plan = LocalPlan(scenario);
    ASSERT_TRUE(plan->flat_names().other_grads);
    ExpectAnyLanes(plan, {12, 30, 5, 20, 9}, TaskKind::kTrain, 1e-4f);
  }
}

// Each lane decides for itself, and has only the part of the cluster that it chose.
TEST_F(GpuTrainerTest, ClientsThatChoose_DoSoInTheirLanes) {
  const auto plan = LocalPlan(Algorithm("ifca", {{"clusters", int64_t{3}}}));
  const std::vector<Came> came = ExpectAnyLanes(plan, {12, 30, 5, 20, 9, 2, 3, 1});
  std::set<double> chosen;
  for (const Came& client : came) {
    EXPECT_EQ(client.parts.size(), 1u);
    chosen.insert(client.declared.at("cluster"));
  }
  EXPECT_GT(chosen.size(), 1u);
}

TEST_F(GpuTrainerTest, PartOfTheEpochs_IsEachClientsOwn) {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 5;
  scenario.client.partial_work = 0.5;
  const std::vector<Came> came = ExpectAnyLanes(LocalPlan(scenario), {20, 20, 20, 20, 12, 20, 20, 20});
  std::set<int64_t> steps;
  for (const Came& client : came) steps.insert(client.steps);
  EXPECT_GT(steps.size(), 1u);
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

// What goes to the device in a second round of the same clients is the model and the orders: not one example.
TEST_F(GpuTrainerTest, ClientThatComesAgain_BringsNoExample) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  const std::vector<Client> clients = ClientsOf(*plan, {30, 30, 30, 30});
  TrainAll(*trainer, ClientsOf(*plan, {30, 30}), *base, 2);  // others, so that all programs are there
  const auto round = [&] {
    const gpu::EmulatedCounts before = gpu::CountEmulated();
    TrainAll(*trainer, clients, *base, 2);
    const gpu::EmulatedCounts after = gpu::CountEmulated();
    return std::pair(after.bytes_to_device - before.bytes_to_device, after.copies_to_device - before.copies_to_device);
  };
  const auto first = round(), second = round(), third = round();
  constexpr int64_t kExampleBytes = 784 * 4 + 8;  // an image, a label
  EXPECT_EQ(first.first - second.first, 4 * 30 * kExampleBytes);
  EXPECT_EQ(first.second - second.second, 4 * 2);
  EXPECT_EQ(second, third);
  EXPECT_LT(second.first, 2 * static_cast<int64_t>(plan->layout()->arena_bytes()) + 10'000);
}

TEST_F(GpuTrainerTest, ExamplesThatAreNotToBeKept_AreBroughtAgain) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const std::vector<Client> clients = ClientsOf(*plan, {30, 30, 30});
  const auto brought_again = [&](double kept) {
    TrainingDevice device = Device();
    device.kept_examples = kept;
    const auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan), device);
    EXPECT_OK(trainer);
    const std::vector<Came> once = TrainAll(**trainer, clients, *base, 1);
    const int64_t before = gpu::CountEmulated().bytes_to_device;
    ExpectSameBits(TrainAll(**trainer, clients, *base, 1), once);
    return gpu::CountEmulated().bytes_to_device - before;
  };
  EXPECT_EQ(brought_again(0) - brought_again(0.25), 3 * 30 * (784 * 4 + 8));
}

// An epoch that others have had before is one call, however many steps it has.
TEST_F(GpuTrainerTest, EpochThatComesAgain_IsOneCall) {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 3;
  const auto plan = LocalPlan(scenario);
  const auto base = PatternModel(*plan);
  const auto calls_of = [&](int size) {
    const auto trainer = OnDevice(plan);
    const std::vector<Client> clients = ClientsOf(*plan, {size, size, size, size});
    const std::vector<Came> once = TrainAll(*trainer, clients, *base, 4);
    ExpectSameBits(TrainAll(*trainer, clients, *base, 4), once);  // makes the graph
    const gpu::EmulatedCounts before = gpu::CountEmulated();
    ExpectSameBits(TrainAll(*trainer, clients, *base, 4), once);
    const gpu::EmulatedCounts after = gpu::CountEmulated();
    EXPECT_EQ(after.graph_launches - before.graph_launches, 3);
    return after.calls - before.calls;
  };
  const int64_t calls = calls_of(20);
  EXPECT_EQ(calls_of(95), calls);
  EXPECT_LT(calls, 30);
}

// Epochs of the same groups whose lists name other lanes: the graph reads them where they are now.
TEST_F(GpuTrainerTest, EpochThatComesAgainForOtherLanes_ReadsTheirList) {
  const auto plan = LocalPlan();
  const auto base = PatternModel(*plan);
  const auto trainer = OnDevice(plan);
  // As many whole batches, and two lanes with a rest of 4 and one with 3: lanes 1 and 3, and 2; then 1 and 2, and 3.
  const std::vector<Client> some = ClientsOf(*plan, {30, 24, 23, 14, 10});
  const std::vector<Client> others = ClientsOf(*plan, {30, 24, 24, 13, 10});
  const std::vector<Came> alone = TrainAll(*OnDevice(plan), some, *base, 1);
  const std::vector<Came> others_alone = TrainAll(*OnDevice(plan), others, *base, 1);
  for (int round = 0; round < 3; ++round) {
    ExpectSameBits(TrainAll(*trainer, some, *base, 5), alone);
    ExpectSameBits(TrainAll(*trainer, others, *base, 5), others_alone);
  }
}

class GpuUpdatesTest : public GpuTrainerTest {
 protected:
  static Scenario Encoded(const std::string& codec, double clip = 0) {
    Scenario scenario = LocalScenario();
    scenario.update.codec = codec;
    scenario.privacy.clip = clip;
    if (clip > 0) scenario.server.weights = "uniform";
    return scenario;
  }

  // The integers of a client's delta as the device folds what it has left there, and as the host folds what it has
  // encoded of the same training.
  static std::pair<std::vector<int64_t>, std::vector<int64_t>> FoldBoth(const Scenario& scenario) {
    const auto plan = LocalPlan(scenario);
    const auto base = PatternModel(*plan);
    const auto trainer = OnDevice(plan);
    const std::vector<Client> clients = ClientsOf(*plan, {30, 20});
    std::vector<LaneTask> lanes;
    for (const Client& client : clients) {
      lanes.push_back({&client.task, client.name, base.get(), client.examples.get()});
    }
    const PartSpec& part = plan->aggregation().parts[0];
    const auto elements = static_cast<size_t>(part.elements);
    std::vector<int64_t> device(elements), host(elements);
    const std::vector<double> scales = {0x1p40, 0x1p40};
    EXPECT_TRUE(trainer->LeaveParts(true));
    const int64_t before = gpu::CountEmulated().bytes_to_host;
    auto left = trainer->Train(lanes);
    EXPECT_OK(left);
    EXPECT_LT(gpu::CountEmulated().bytes_to_host - before, part.elements);  // numbers, and no update
    EXPECT_EQ((*left)[0].lanes, 2);
    EXPECT_EQ((*left)[1].parts[0].device_part->codec(), scenario.update.codec);
    std::vector<FoldState> states(2);
    EXPECT_OK((*left)[0].parts[0].device_part->Fold(std::vector<int32_t>{0, 1}, scales, part.value_bits, 1,
                                                    std::span(device), states));
    EXPECT_FALSE(trainer->LeaveParts(false));
    auto brought = trainer->Train(lanes);
    EXPECT_OK(brought);
    auto pipeline = UpdatePipeline::Create(*plan);
    EXPECT_OK(pipeline);
    auto codec = Codec::Create(part.codec, part.elements);
    EXPECT_OK(codec);
    for (size_t i = 0; i < 2; ++i) {
      LocalResult& result = (*brought)[i];
      auto parts = (*pipeline)->Apply(clients[i].task, result.parts, result.declared);
      EXPECT_OK(parts);
      std::vector<float> values;
      if ((*parts)[0].data.empty()) {
        EachValue((*parts)[0].runs, [&](float value) { values.push_back(value); });
      } else {
        values.resize(elements);
        (*codec)->Decode((*parts)[0].data, 0, values);
      }
      FoldState state;
      AddToSums({values.data(), nullptr, part.elements}, scales[i], part.value_bits, std::span(host), state);
      EXPECT_NEAR(states[i].Norm(), state.Norm(), 1e-6 * state.Norm());
      if (scenario.privacy.clip > 0) {
        EXPECT_NEAR(state.Norm(), scenario.privacy.clip, 1e-3 * scenario.privacy.clip);
      }
    }
    return {device, host};
  }
};

TEST_F(GpuUpdatesTest, SixteenBitUpdates_AreFoldedOnTheDeviceToTheHostsBits) {
  for (const char* codec : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(codec);
    const auto [device, host] = FoldBoth(Encoded(codec));
    EXPECT_EQ(device, host);
  }
}

// A norm whose squares are added in another order may move a value by its last bit, twice for two clients.
TEST_F(GpuUpdatesTest, ClippedUpdates_AreFoldedOnTheDeviceWithinTheLastBit) {
  const auto [device, host] = FoldBoth(Encoded("f32", 0.05));
  for (size_t i = 0; i < host.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(device[i]), static_cast<double>(host[i]), 0x1p40 * 0.05 * 0x1p-22) << i;
  }
  EXPECT_TRUE(std::ranges::any_of(host, [](int64_t value) { return value != 0; }));
}

TEST_F(GpuUpdatesTest, WhatOnlyTheHostDoes_IsBroughtThere) {
  Scenario noise = Encoded("f32", 0.05);
  noise.privacy.noise = 0.1;
  noise.privacy.noise_source = "secure";
  Scenario tilted = LocalScenario();
  tilted.algorithm = {.name = "term", .settings = {{"t", 0.5}}};
  for (const Scenario& scenario : {noise, tilted}) {
    EXPECT_FALSE(OnDevice(LocalPlan(scenario))->LeaveParts(true));
  }
}

TEST_F(GpuTrainerTest, TaskTooLargeForTheDevice_IsToldBeforeItIsTaken) {
  gpu::SetEmulatedSettings({.memory_bytes = 1'000'000});
  const auto trainer = OnDevice(LocalPlan());
  EXPECT_OK(trainer->CheckRoom(TaskKind::kTrain, 20));
  EXPECT_THAT(trainer->CheckRoom(TaskKind::kTrain, 1000),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("with 1000 examples takes")));
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
