// Client states that sites without a shared disk store at the coordinator: permissions to read and write them.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "client/site/remote_client_state.h"
#include "coordinator/coordinator.h"
#include "tiny_sites.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class SiteStatesTest : public ::testing::Test {
 protected:
  void Start(bool keeps = true) {
    options_.scenario = TinyScenario(2, 2, 2);
    options_.db_path = folder_.db();
    options_.enforce_deadline = false;
    options_.population = NumberedPopulation(2);
    parts_ = TinyParts(3, 2);
    parts_.keeps_state = keeps;
    parts_.most_state_bytes = 100;
    auto created = CreateCoordinator(options_, parts_);
    ASSERT_OK(created);
    coordinator_ = *std::move(created);
  }
  std::vector<Task> TasksOf(const std::string& site, size_t tasks) {
    std::vector<Task> taken;
    while (taken.size() < tasks) {
      PollRequest request;
      request.caller = As(site);
      request.serves.kind = Serves::Kind::kAny;
      for (const Task& task : taken) request.working_on.push_back({task.id, false});
      const auto reply = coordinator_->Poll(request);
      EXPECT_OK(reply);
      if (!reply.ok() || reply->over) break;
      taken.insert(taken.end(), reply->tasks.begin(), reply->tasks.end());
    }
    return taken;
  }
  RemoteClientState StatesOf(const std::string& site) { return {*coordinator_, stop_, As(site), CallOptions()}; }
  static StateBlob BlobOf(float value) {
    std::vector<float> values = {value};
    return WriteState(std::vector<NamedState>{{"n", values}});
  }
  size_t Kept() {
    size_t files = 0;
    if (!std::filesystem::exists(coordinator_->folder() + "/state")) return 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(coordinator_->folder() + "/state")) {
      files += entry.is_regular_file();
    }
    return files;
  }

  TestFolder folder_;
  CoordinatorOptions options_;
  RunParts parts_;
  StopSignal stop_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(SiteStatesTest, Proposal_IsWhatTheClientsNextTaskBeginsWith) {
  Start();
  RemoteClientState states = StatesOf("site 1");
  ASSERT_OK(TinySite(*coordinator_, parts_.aggregation, SitePlace::kAnother, &states).Run());
  ASSERT_OK(coordinator_->Wait());
  EXPECT_EQ(Kept(), 2u) << "one of each client: the second is durable";
}

TEST_F(SiteStatesTest, NobodyElse_MayReadItOrLeaveOne) {
  Start();
  const Task task = TasksOf("site 1", 1)[0];
  EXPECT_THAT(StatesOf("site 2").Propose(task.run_id, task.client_id, task.id, BlobOf(1)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("site 'site 2' has no task")));
  EXPECT_OK(StatesOf("site 1").Propose(task.run_id, task.client_id, task.id, BlobOf(1)));
  EXPECT_EQ(Kept(), 1u);
  // It is of a task that is in no version yet, so no task begins with it.
  EXPECT_THAT(StatesOf("site 1").Read(task.run_id, task.client_id, task.id),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no task that begins with such a state")));
}

TEST_F(SiteStatesTest, WhatIsNoState_IsRefused) {
  Start();
  const Task task = TasksOf("site 1", 1)[0];
  RemoteClientState states = StatesOf("site 1");
  EXPECT_THAT(states.Propose(task.run_id, task.client_id, task.id, "nonsense"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no state, or a damaged one")));
  EXPECT_THAT(states.Propose(task.run_id, task.client_id, task.id, std::string(101, 'x')),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("those of this plan have 1 to 100")));
  EXPECT_EQ(Kept(), 0u);
}

TEST_F(SiteStatesTest, RunWithoutState_TakesNone) {
  Start(false);
  const Task task = TasksOf("site 1", 1)[0];
  EXPECT_THAT(StatesOf("site 1").Propose(task.run_id, task.client_id, task.id, BlobOf(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("keep nothing from task to task")));
}

TEST_F(SiteStatesTest, ClientsThatKeepTheirsThemselves_AreToldWhoseProposalCounts) {
  options_.names_states = true;
  Start(false);
  const std::vector<Task> first = TasksOf("site 1", 2);
  ASSERT_EQ(first.size(), 2u);
  for (const Task& task : first) {
    EXPECT_EQ(task.state_of, "");
    const auto sent = Send(*coordinator_, "site 1", task.id, MakeUpdate({1, 2, 3}, 10));
    ASSERT_OK(sent);
    ASSERT_EQ(sent->kind, SubmitResult::Kind::kAccepted);
  }
  for (const Task& task : TasksOf("site 1", 2)) {
    const auto before = std::ranges::find(first, task.client_id, &Task::client_id);
    ASSERT_NE(before, first.end());
    EXPECT_EQ(task.state_of, before->id);
    EXPECT_EQ(task.input("state"), nullptr) << "the coordinator has none";
  }
}

TEST_F(SiteStatesTest, TaskThatEndsWithoutItsUpdate_ItsProposalGoes) {
  Start();
  const std::vector<Task> tasks = TasksOf("site 1", 2);
  ASSERT_EQ(tasks.size(), 2u);
  RemoteClientState states = StatesOf("site 1");
  for (const Task& task : tasks) EXPECT_OK(states.Propose(task.run_id, task.client_id, task.id, BlobOf(1)));
  EXPECT_EQ(Kept(), 2u);
  for (const Task& task : tasks) EXPECT_OK(coordinator_->Fail(As("site 1"), {.task = task.id}));
  TasksOf("site 1", 1);  // of the next attempt, which may begin before the last one is tidied up
  for (int i = 0; i < 1000 && Kept() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Kept(), 0u);
}

}  // namespace
}  // namespace rivulet
