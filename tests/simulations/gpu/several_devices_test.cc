// Several devices: one worker's, which adds what they have folded on them, a worker each where they cannot, or a rank
// each; the bits are those of one device.
#include "client/training/device/gpu_team.h"
#include "simulations/launchers/rank_crew.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/simulations/thread_ranks.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

using testing::ThreadRanks;

class SeveralDevicesTest : public SimulatorTest {
 protected:
  void SetUp() override {
    SimulatorTest::SetUp();
    gpu::SetEmulatedSettings({.devices = 4});
  }
  ~SeveralDevicesTest() override { gpu::SetEmulatedSettings({}); }

  // Clients of unlike sizes.
  Scenario UnlikeScenario() {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 3;
    scenario.server.clients_per_round = 7;
    scenario.data.partition.settings["sizes"] = "linear";
    return scenario;
  }

  static TrainingDevice Devices(int count, int most_lanes = 3) {
    TrainingDevice on;
    on.most_lanes = most_lanes;
    for (int number = 0; number < count; ++number) {
      auto device = GpuDevice::Open(gpu::EmulatedBackend(), number);
      EXPECT_OK(device);
      (number == 0 ? on.device : on.more.emplace_back()) = *device;
    }
    return on;
  }

  Trace OnDevices(const Scenario& scenario, const TrainingDevice& on, int workers, const std::string& db) {
    device_ = on;
    const Trace trace = Simulate(scenario, workers, db);
    device_ = {};
    return trace;
  }

  void ExpectSame(const Trace& other, const Trace& one) {
    ASSERT_OK(other.status);
    EXPECT_EQ(other.digests, one.digests);
    EXPECT_EQ(other.central, one.central);
  }

  int64_t SumsOf(const Scenario& scenario, const TrainingDevice& on, int workers, const Trace& one,
                 const std::string& db) {
    const int64_t before = gpu::CountEmulated().sums;
    ExpectSame(OnDevices(scenario, on, workers, db), one);
    return gpu::CountEmulated().sums - before;
  }
};

TEST_F(SeveralDevicesTest, Sums_AreAddedOnTheDevicesToTheSameBits) {
  const Scenario scenario = UnlikeScenario();
  const Trace one = OnDevices(scenario, Devices(1), 1, "1.sqlite");
  ASSERT_OK(one.status);
  for (const int count : {2, 4}) {
    SCOPED_TRACE(count);
    EXPECT_GE(SumsOf(scenario, Devices(count), 0, one, fmt::format("{}.sqlite", count)), scenario.run.rounds);
  }
}

TEST_F(SeveralDevicesTest, WhereTheyCannotAdd_EachIsAWorkers) {
  gpu::SetEmulatedSettings({.devices = 4, .sums = false});
  const Scenario scenario = UnlikeScenario();
  const Trace one = OnDevices(scenario, Devices(1), 1, "1.sqlite");
  ASSERT_OK(one.status);
  const TrainingDevice four = Devices(4);
  EXPECT_EQ(SumsOf(scenario, four, 0, one, "4.sqlite"), 0);
  // Which worker gets what is a matter of time, but not that the first gets all.
  size_t held = 0;
  for (const auto& device : four.more) held += device->bytes_held();
  EXPECT_GT(held, 0u);
}

// Who has said how many workers there are has workers; updates that the host weighs have no sums on devices.
TEST_F(SeveralDevicesTest, WorkersThatWereAskedFor_AndUpdatesThatTheHostWeighs_AddOnTheHost) {
  Scenario scenario = UnlikeScenario();
  const Trace one = OnDevices(scenario, Devices(1), 1, "1.sqlite");
  EXPECT_EQ(SumsOf(scenario, Devices(2), 2, one, "2.sqlite"), 0);
  scenario.algorithm = {.name = "term", .settings = {{"t", 0.5}}};
  const Trace weighed = OnDevices(scenario, Devices(1), 1, "term.sqlite");
  EXPECT_EQ(SumsOf(scenario, Devices(2), 0, weighed, "term-2.sqlite"), 0);
}

TEST_F(SeveralDevicesTest, StatesClipsAndCodecs_GoAlongThem) {
  Scenario scaffold = UnlikeScenario();
  scaffold.algorithm.name = "scaffold";
  Scenario clipped = UnlikeScenario();
  clipped.update.codec = "bf16";
  clipped.server.weights = "uniform";
  clipped.privacy.clip = 0.1;
  Scenario measured = UnlikeScenario();
  measured.evaluation.federated_every = 1;
  measured.evaluation.federated_clients = 3;
  Scenario rounded = scaffold;
  rounded.update.codec = "int8";
  Scenario sparse = UnlikeScenario();
  sparse.update.codec = "top_k";
  int number = 0;
  for (const Scenario& scenario : {scaffold, clipped, measured, rounded, sparse}) {
    SCOPED_TRACE(++number);
    const Trace one = OnDevices(scenario, Devices(1), 1, fmt::format("one-{}.sqlite", number));
    ASSERT_OK(one.status);
    EXPECT_GT(SumsOf(scenario, Devices(3), 0, one, fmt::format("three-{}.sqlite", number)), 0);
  }
}

// What is taken out of the sums again is taken out of the right device's.
TEST_F(SeveralDevicesTest, UpdatesBeyondTheBound_AreRefusedAsOnOne) {
  Scenario scenario = UnlikeScenario();
  scenario.client.optimizer.learning_rate = 3e4;
  const Trace one = OnDevices(scenario, Devices(1), 1, "1.sqlite");
  const Trace three = OnDevices(scenario, Devices(3), 0, "3.sqlite");
  EXPECT_FALSE(one.status.ok());
  EXPECT_EQ(three.status.code(), one.status.code());
  EXPECT_EQ(three.digests, one.digests);
}

TEST(DeviceOfRankTest, RanksOfAMachine_TakeItsDevicesInTurn) {
  ThreadRanks ranks(5);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(DeviceOfRank(ranks.at(rank), 2), static_cast<size_t>(rank % 2));
    EXPECT_EQ(DeviceOfRank(ranks.at(rank), 8), static_cast<size_t>(rank));
    EXPECT_EQ(DeviceOfRank(ranks.at(rank), 1), 0u);
  }
}

TEST_F(SeveralDevicesTest, DevicesOfTwoModels_AreRefused) {
  gpu::SetEmulatedSettings({.devices = 3, .of_another_model = 2});
  EXPECT_THAT(OnDevices(UnlikeScenario(), Devices(3), 0, "3.sqlite").status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("GPU 0 is 'Emulated device' and GPU 2 is 'Another emulated device'")));
}

class RanksOnDevicesTest : public SeveralDevicesTest {
 protected:
  Trace ByRanks(const Scenario& scenario, int size, const std::vector<StatusOr<TrainingDevice>>& devices) {
    ThreadRanks ranks(size);
    std::vector<std::thread> others;
    for (int rank = 1; rank < size; ++rank) {
      others.emplace_back([&ranks, &devices, rank] {
        (void)FollowRanks(ranks.at(rank), {.device = devices[static_cast<size_t>(rank)]});
      });
    }
    TraceRecorder recorder;
    Trace trace;
    trace.status = [&]() -> Status {
      RIVULET_ASSIGN_OR_RETURN(const auto simulation, Simulation::Create({.scenario = scenario,
                                                                          .db_path = Path("ranks.sqlite"),
                                                                          .device = *devices[0],
                                                                          .ranks = &ranks.at(0),
                                                                          .observer = recorder.Observer()}));
      const StatusOr<SimulationResult> result = simulation->Run();
      trace = recorder.trace();
      return result.status();
    }();
    DismissRanks(ranks.at(0));
    for (std::thread& other : others) other.join();
    return trace;
  }
};

TEST_F(RanksOnDevicesTest, ADeviceEach_SameBits) {
  const Scenario scenario = UnlikeScenario();
  const Trace one = OnDevices(scenario, Devices(1), 1, "1.sqlite");
  ASSERT_OK(one.status);
  std::vector<StatusOr<TrainingDevice>> devices;
  for (int rank = 0; rank < 3; ++rank) devices.emplace_back(Devices(3).Of(rank));
  ExpectSame(ByRanks(scenario, 3, devices), one);
  for (const auto& on : devices) EXPECT_GT(on->device->bytes_held(), 0u);
}

TEST_F(RanksOnDevicesTest, RankWithoutItsDevice_IsNamed) {
  const Trace trace = ByRanks(UnlikeScenario(), 2, {Devices(1), FailedPrecondition("there is no GPU 1 here")});
  EXPECT_THAT(trace.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("rank 1 cannot take part: there is no GPU 1 here")));
}

TEST_F(RanksOnDevicesTest, RankOfAnotherModel_IsNamed) {
  gpu::SetEmulatedSettings({.devices = 2, .of_another_model = 1});
  const Trace trace = ByRanks(UnlikeScenario(), 2, {Devices(2).Of(0), Devices(2).Of(1)});
  EXPECT_THAT(trace.status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 trains on 'Another emulated device' and rank 0 on 'Emulated device'")));
}

}  // namespace
}  // namespace rivulet
