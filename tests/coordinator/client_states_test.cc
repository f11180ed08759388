// Rules for accepting proposed client states and deleting earlier ones, without a run.
#include "coordinator/client_states.h"

#include <gmock/gmock.h>

#include "test_run.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TaskId TrainedAt(int64_t round, const std::string& client_id) {
  return TaskIdOf("run", {TaskKind::kTrain, round, 1, client_id, 0});
}

class RecordingStore : public ClientStateStore {
 public:
  explicit RecordingStore(std::vector<std::string>& calls) : calls_(calls) {}
  StatusOr<StateBlob> Read(std::string_view, std::string_view client_id, const TaskId& state_of) override {
    return fmt::format("{} of {}", state_of, client_id);
  }
  Status Propose(std::string_view, std::string_view client_id, const TaskId&, StateBlob) override {
    calls_.push_back(fmt::format("propose {}", client_id));
    return absl::OkStatus();
  }
  void Durable(std::string_view, std::string_view client_id, const TaskId& task) override {
    calls_.push_back(fmt::format("durable {} {}", client_id, TaskNameOf(task, "run")->round));
  }
  void Forget(std::string_view, std::string_view client_id, const TaskId& task) override {
    calls_.push_back(fmt::format("forget {} {}", client_id, TaskNameOf(task, "run")->round));
  }

 private:
  std::vector<std::string>& calls_;
};

class ClientStatesTest : public ::testing::Test {
 protected:
  ClientStates Make(bool keeps, bool measures, bool names = false) {
    parts_.keeps_state = keeps;
    parts_.measures_state = measures;
    return {"run", parts_, names, keeps ? std::make_unique<RecordingStore>(calls_) : nullptr, {}, std::nullopt};
  }
  // Where client "a" trained, its update was folded, and its state came here.
  static PendingAttempt Trained(int64_t round, const std::string& status = "committed") {
    PendingAttempt pending;
    pending.attempt.round = round;
    pending.end.status = status;
    Lease lease;
    lease.client_id = "a";
    lease.task = TrainedAt(round, "a");
    lease.state = Lease::State::kFolded;
    pending.attempt.tasks.push_back({lease, {}});
    pending.attempt.tasks.back().facts.left_state = true;
    return pending;
  }
  static PendingAttempt Measured(int64_t version) {
    PendingAttempt pending;
    pending.attempt.kind = TaskKind::kEvaluate;
    pending.attempt.round = version;
    pending.end.status = "measured";
    return pending;
  }

  RunParts parts_ = TinyParts(3, 2);
  std::vector<std::string> calls_;
};

TEST_F(ClientStatesTest, FoldedTask_IsWhatTheNextOneBeginsWith) {
  ClientStates states = Make(true, false);
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 0), "");
  states.Closed(Trained(1, "abandoned"));
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 0), "") << "it is in no version";
  states.Closed(Trained(1));
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 1), TrainedAt(1, "a"));
  EXPECT_EQ(states.Of(TaskKind::kTrain, "b", 1), "");
  EXPECT_EQ(states.Of(TaskKind::kEvaluate, "a", 1), "") << "versions are measured without it";
  states.Lost({TaskKind::kTrain, 2, 1, "a", 0});
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 1), "");
}

TEST_F(ClientStatesTest, ClientsThatKeepTheirsThemselves_HaveTheirTasksNamed) {
  ClientStates states = Make(false, false, true);
  EXPECT_FALSE(states.stores());
  states.Closed(Trained(1));
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 1), TrainedAt(1, "a"));
  EXPECT_EQ(Make(false, false).Of(TaskKind::kTrain, "a", 1), "");
}

TEST_F(ClientStatesTest, AttemptThatCameToNothing_ItsProposalsGo) {
  ClientStates states = Make(true, false);
  states.ForgetUnfolded(Trained(1));
  EXPECT_THAT(calls_, IsEmpty());
  states.ForgetUnfolded(Trained(1, "abandoned"));
  EXPECT_THAT(calls_, ElementsAre("forget a 1"));
}

TEST_F(ClientStatesTest, WrittenVersion_EarlierProposalsGo) {
  ClientStates states = Make(true, false);
  states.Written(Trained(1));
  states.ForgetSuperseded(std::nullopt);
  EXPECT_THAT(calls_, ElementsAre("durable a 1"));
  states.ForgetSuperseded(std::nullopt);
  EXPECT_THAT(calls_, ElementsAre("durable a 1")) << "once";
}

// Version 1 is measured with what clients had then, so that stays until its figures are durable.
TEST_F(ClientStatesTest, VersionThatIsMeasured_KeepsTheStatesOfItsTime) {
  ClientStates states = Make(true, true);
  states.ForgetSuperseded(1);
  states.Closed(Trained(1));
  states.Closed(Trained(2));
  EXPECT_EQ(states.Of(TaskKind::kEvaluate, "a", 1), TrainedAt(1, "a"));
  EXPECT_EQ(states.Of(TaskKind::kTrain, "a", 2), TrainedAt(2, "a"));
  EXPECT_TRUE(states.HadOwn("a", 1));
  EXPECT_FALSE(states.HadOwn("a", 0));
  states.Written(Trained(2));
  EXPECT_TRUE(states.Superseding(TrainedAt(2, "a"), 1));
  states.ForgetSuperseded(1);
  EXPECT_THAT(calls_, IsEmpty());
  // It is measured, and a crash would have it measured again.
  states.Closed(Measured(1));
  EXPECT_TRUE(states.Superseding(TrainedAt(2, "a"), std::nullopt));
  states.Written(Measured(1));
  EXPECT_FALSE(states.Superseding(TrainedAt(2, "a"), std::nullopt));
  states.ForgetSuperseded(std::nullopt);
  EXPECT_THAT(calls_, ElementsAre("durable a 2"));
}

TEST_F(ClientStatesTest, Proposals_AreTheStoresByClient) {
  const ClientStates states = Make(true, false);
  EXPECT_OK(states.Propose(TrainedAt(3, "a"), "bytes"));
  states.Forget(TrainedAt(3, "a"));
  EXPECT_THAT(calls_, ElementsAre("propose a", "forget a 3"));
  EXPECT_EQ(*states.Read("a", "t"), "t of a");
}

}  // namespace
}  // namespace rivulet
