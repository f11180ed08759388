// The gate between a simulation's server and its coordinator: admission, missing workers, and their identities.
#include "simulations/launchers/worker_gate.h"

#include "client/calls/coordinator_calls.h"
#include "simulations/launchers/invitation.h"
#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class WorkerGateTest : public SimulatorTest {
 protected:
  void Start(WorkerGateOptions options) {
    Scenario scenario = SmallScenario();
    auto simulation = Simulation::Create({.scenario = scenario, .db_path = Path("runs.sqlite"), .others_train = true});
    ASSERT_OK(simulation);
    simulation_ = *std::move(simulation);
    options.tell = [this](const std::string& sentence) {
      MutexLock lock(mutex_);
      told_ += sentence + "\n";
    };
    gate_ = std::make_unique<WorkerGate>(simulation_->coordinator(), simulation_->coordinator(), std::move(options));
  }
  StatusOr<PollReply> Poll(const Caller& caller, int64_t want, const std::string& version = kWorkerVersion) {
    PollRequest request;
    request.caller = caller;
    request.capabilities.version = version;
    request.serves.kind = Serves::Kind::kAny;
    request.want = want;
    return gate_->Poll(request);
  }
  std::string told() {
    MutexLock lock(mutex_);
    return told_;
  }

  Mutex mutex_;
  std::string told_ GUARDED_BY(mutex_);
  std::unique_ptr<Simulation> simulation_;
  std::unique_ptr<WorkerGate> gate_;
};

TEST_F(WorkerGateTest, Invitation_IsThereForWhoAsks) {
  Start({.invitation = "an invitation"});
  StopSignal stop;
  const auto bytes = CoordinatorCalls(*gate_, stop).Fetch({.name = "node"}, InvitationBlob(), kMaxInvitationBytes);
  ASSERT_OK(bytes);
  EXPECT_EQ(*bytes, "an invitation");
  EXPECT_THAT(gate_->Fetch({.name = "node"}, InvitationBlob(), 99), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(simulation_->coordinator().Fetch({.name = "node"}, InvitationBlob(), 0),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(WorkerGateTest, InvitationOfManyMegabytes_IsNotTaken) {
  Start({.invitation = std::string(kMaxInvitationBytes + 1, 'x')});
  StopSignal stop;
  EXPECT_THAT(CoordinatorCalls(*gate_, stop).Fetch({.name = "node"}, InvitationBlob(), kMaxInvitationBytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 4000000 are taken")));
}

TEST_F(WorkerGateTest, ThousandsOfInventedNames_AreAFewLines) {
  Start({});
  for (int i = 0; i < 5000; ++i) (void)Poll({.name = fmt::format("invented {}", i)}, 0);
  gate_.reset();
  const std::string all = told();
  EXPECT_LE(std::ranges::count(all, '\n'), 21);
  EXPECT_THAT(all, HasSubstr("'invented 0' has joined"));
  EXPECT_THAT(all, HasSubstr("4980 more lines of this kind were left out"));
}

TEST_F(WorkerGateTest, MoreSitesThanAnyClusterHas_AreNotAdmitted) {
  Start({});
  Status last = NotFound("not asked yet");
  int asked = 0;
  for (; asked < 20'000 && absl::IsNotFound(last); ++asked) {
    last = gate_->Submit({.name = fmt::format("{}", asked)}, {.task = "none"}).status();
  }
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("threads of workers take part already")));
  EXPECT_EQ(asked, 16'385);
}

TEST_F(WorkerGateTest, SilentWorker_WhatItHadIsGivenToAnother) {
  Start({.lease = std::chrono::milliseconds(40)});
  const auto first = Poll({.name = "one"}, 4);
  ASSERT_OK(first);
  ASSERT_THAT(first->tasks, SizeIs(2)) << "half of a cohort of four";
  EXPECT_LE(first->wait_ms, 13) << "it is to be heard of three times a lease";
  std::set<std::string> given;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (given.size() < 4 && std::chrono::steady_clock::now() < give_up) {
    PollRequest request;
    request.caller = {.name = "two"};
    request.capabilities.version = kWorkerVersion;
    request.serves.kind = Serves::Kind::kAny;
    request.want = 4;
    for (const std::string& task : given) request.working_on.push_back({task, false});
    const auto reply = gate_->Poll(request);
    ASSERT_OK(reply);
    for (const Task& task : reply->tasks) given.insert(task.id);
  }
  EXPECT_TRUE(given.contains(first->tasks[0].id));
  EXPECT_TRUE(given.contains(first->tasks[1].id));
  EXPECT_THAT(told(), HasSubstr("'one' has joined"));
  EXPECT_THAT(told(), HasSubstr("'one' was silent for 0.04 s; others get its tasks"));
}

TEST_F(WorkerGateTest, ThreadsOfOneCertificate_AreSitesOfTheirOwn) {
  Start({});
  Caller caller{.name = "node", .session = 1, .proven = Caller::Proven::kClient};
  const auto first = Poll(caller, 1);
  caller.session = 2;
  const auto second = Poll(caller, 1);
  ASSERT_OK(first);
  ASSERT_OK(second);
  ASSERT_THAT(first->tasks, SizeIs(1));
  ASSERT_THAT(second->tasks, SizeIs(1));
  EXPECT_NE(first->tasks[0].id, second->tasks[0].id);
}

TEST_F(WorkerGateTest, UnderAttack_OnlyWhoPlaysItIsLetIn) {
  Start({.attack = "sign_flip"});
  EXPECT_OK(Poll({.name = "one"}, 1).status());
  EXPECT_THAT(Poll({.name = "two"}, 1, "python 3.11"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("attack.name = \"sign_flip\"")));
}

TEST_F(WorkerGateTest, OtherData_IsNotJoined) {
  Start({});
  auto invitation = simulation_->invitation();
  ASSERT_OK(invitation);
  EXPECT_OK(JoinSimulation(*invitation, "").status());
  WriteRecords("train.tfrecord", DigitRecords(205, 3));
  EXPECT_THAT(JoinSimulation(*invitation, ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not that of the simulation")));
  EXPECT_THAT(JoinSimulation(*invitation, Path("elsewhere")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("from one folder, which --data names")));
  invitation->fingerprint.clear();
  EXPECT_THAT(JoinSimulation(*invitation, ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no data that a worker could find")));
}

}  // namespace
}  // namespace rivulet
