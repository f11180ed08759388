// Finished work on disk: deaths between training and acknowledgement, and after the acknowledgement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "client/agent/persisted_updates.h"
#include "client/agent/privacy_ledger.h"
#include "client/training/training_checkpoint.h"
#include "tests/client/agent/flaky_coordinator.h"
#include "tests/coordinator/faulty_file_system.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What happens to an agent whose updates are persisted: tasks with names that a coordinator gives.
class HeldAgentTest : public testing::AgentTest {
 protected:
  HeldAgentTest() { coordinator_.named_ = true; }
  // As the next process would be.
  AgentOptions WithPersisted() {
    AgentOptions options = Options();
    const auto note = [this](const std::string& sentence) { said_.push_back(sentence); };
    options.persisted = std::make_shared<PersistedUpdates>(FileSystem::Default(), folder_.path(), "site-1",
                                                           PersistedUpdates::Options{.on_note = note});
    return options;
  }
  Status RunAgent() { return Agent(coordinator_, WithPersisted()).Run(); }
  bool HoldsTask() {
    Task task = coordinator_.task_;
    task.id = "run-r1-a1-site-1-0";
    return WithPersisted().persisted->Find(task).has_value();
  }

  const testing::TempFolder folder_;
  std::vector<std::string> said_;
};

TEST_F(HeldAgentTest, KilledBeforeItWasSent_SendsItAgainWithoutTraining) {
  coordinator_.submit_errors_ = {absl::PermissionDeniedError("turned away")};  // the end of the first process
  EXPECT_THAT(RunAgent(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("turned away")));
  ASSERT_TRUE(HoldsTask());
  ASSERT_OK(RunAgent());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_TRUE(reports_[0].resent);
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kAccepted);
  EXPECT_EQ(reports_[0].examples, 25);
  EXPECT_EQ(reports_[0].bytes_up, coordinator_.bytes_);
  EXPECT_GT(coordinator_.train_seconds_, 0);
  // The second process fetched the plan, which this site might allow no more, and no model.
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.plan], ElementsAre(0, 0));
  EXPECT_THAT(coordinator_.fetch_offsets_[coordinator_.task_.input("model")->id.digest], ElementsAre(0));
  const std::string resent = coordinator_.staged_;
  coordinator_.tasks_ = 1;
  ASSERT_OK(Agent(coordinator_, Options()).Run());  // trained
  EXPECT_FALSE(reports_[1].resent);
  EXPECT_EQ(coordinator_.staged_, resent);
}

TEST_F(HeldAgentTest, AcknowledgedAndOfferedAgain_IsSentAgainUntilItIsDurable) {
  coordinator_.over_failed_ = true;  // a coordinator that died: nobody said that the run has finished
  ASSERT_OK(RunAgent());
  EXPECT_TRUE(HoldsTask());
  coordinator_.tasks_ = 1;
  ASSERT_OK(RunAgent());
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_FALSE(reports_[0].resent);
  EXPECT_TRUE(reports_[1].resent);
  EXPECT_TRUE(HoldsTask());
  coordinator_.outcomes_ = {{"run-r1-a1-site-1-0", TaskEnd::kFolded, "", true}};
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
  EXPECT_THAT(said_, SizeIs(0));
}

// A client that lost its update on disk trains again. With noise of its own it then tells twice as much; with noise of
// the server it sends the same bits.
TEST_F(HeldAgentTest, TrainedAgain_IsChargedAgainWhereTheClientDrawsNoise) {
  for (const auto& [noise, charges] : std::map<std::string, int>{{"local", 2}, {"central", 1}}) {
    SCOPED_TRACE(noise);
    Scenario scenario = testing::LocalScenario();
    scenario.algorithm = {.name = "dp_fedavg", .settings = {{"noise_multiplier", 1.0}, {"noise", noise}}};
    scenario.privacy.clip = 1;
    coordinator_.task_.plan = coordinator_.AddBlob(testing::PlanBytes(scenario));
    const auto answer = [&](int tasks) {
      AgentOptions options = WithPersisted();
      ASSERT_OK_AND_ASSIGN(options.ledger,
                           PrivacyLedger::Open(FileSystem::Default(), folder_.File("of-" + noise), {.epsilon = 1000}));
      coordinator_.tasks_ = tasks;
      coordinator_.over_failed_ = true;
      ASSERT_OK(Agent(coordinator_, options).Run());
    };
    const auto charged = [&] {
      const std::string text = testing::ContentOf(folder_.File("of-" + noise));
      const size_t at = text.find("charged ");
      return std::stoi(text.substr(text.find(' ', at + 8)));
    };
    answer(1);
    EXPECT_EQ(charged(), 1);
    const std::string sent = coordinator_.staged_;
    answer(1);
    EXPECT_EQ(charged(), 1) << "sent again from the disk";
    EXPECT_EQ(coordinator_.staged_, sent);
    WithPersisted().persisted->Drop("run-r1-a1-site-1-0", "lost");
    ASSERT_FALSE(HoldsTask());
    answer(1);
    EXPECT_EQ(charged(), charges);
    EXPECT_EQ(coordinator_.staged_ == sent, charges == 1);
    WithPersisted().persisted->Drop("run-r1-a1-site-1-0", "the next case");
  }
}

TEST_F(HeldAgentTest, RunThatHasFinished_LeavesNothingHeld) {
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
}

TEST_F(HeldAgentTest, TaskThatDied_IsDroppedWithOneLine) {
  coordinator_.over_failed_ = true;
  ASSERT_OK(RunAgent());
  coordinator_.outcomes_ = {{"run-r1-a1-site-1-0", TaskEnd::kDropped, "its round was abandoned", false}};
  coordinator_.waits_ = 3;
  ASSERT_OK(RunAgent());
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: its round was abandoned"));
  EXPECT_FALSE(HoldsTask());
}

TEST_F(HeldAgentTest, RefusedUpdate_IsNotHeld) {
  coordinator_.over_failed_ = true;
  coordinator_.result_ = {SubmitResult::Kind::kRefused, "not a number"};
  ASSERT_OK(RunAgent());
  EXPECT_FALSE(HoldsTask());
  EXPECT_THAT(said_, ElementsAre("the finished update of round 1 is dropped: not a number"));
}

TEST_F(HeldAgentTest, SiteThatForbidsThePlanByNow_SendsNothing) {
  coordinator_.submit_errors_ = {absl::PermissionDeniedError("turned away")};
  EXPECT_THAT(RunAgent(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("turned away")));
  AgentOptions options = WithPersisted();
  options.artifacts = std::make_shared<ArtifactCache>(
      "", nullptr, [](const Plan&) -> Status { return FailedPrecondition("this site allows no plan"); });
  ASSERT_OK(Agent(coordinator_, std::move(options)).Run());
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].kind, TaskReport::Kind::kFailed);
  EXPECT_THAT(reports_[0].reason, HasSubstr("this site allows no plan"));
  EXPECT_EQ(coordinator_.staged_, "");
}

// Whether updates are synced: of training that takes seconds, or less than any.
class PowerlessAgentTest : public HeldAgentTest, public ::testing::WithParamInterface<bool> {};

// Property: wherever the client loses its power, before or after each of its durable steps, the next process sends the
// same bytes; once a finished update is synced, without training.
TEST_P(PowerlessAgentTest, IsFollowedByOneThatSendsTheSameBytes) {
  const double unsynced_seconds = GetParam() ? 0 : 1e9;
  ASSERT_OK(Agent(coordinator_, Options()).Run());
  const std::string reference = coordinator_.staged_;
  int points = 0, resent = 0, gone_on = 0;
  for (int victim = 1;; ++victim) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    const testing::TempFolder folder(testing::TempFolder::Place::kMemory);
    const auto options = [&](FileSystem& fs) {
      AgentOptions options = Options();
      options.persisted = std::make_shared<PersistedUpdates>(
          fs, folder.File("updates"), "site-1", PersistedUpdates::Options{.unsynced_seconds = unsynced_seconds});
      const TrainingCheckpoint::Options each_step{
          std::chrono::milliseconds(0), "1",
          [&gone_on](const std::string& said) { gone_on += said.starts_with("resumes after step"); }};
      options.checkpoint = std::make_shared<TrainingCheckpoint>(fs, folder.File("training"), "site-1", each_step);
      return options;
    };
    const pid_t child = fork();
    if (child == 0) {
      FaultyFileSystem fs;
      int count = 0;
      fs.at = [&](const std::string&) {
        if (++count == victim) {
          fs.LoseUnsynced();
          kill(getpid(), SIGKILL);
        }
        return absl::OkStatus();
      };
      coordinator_.tasks_ = 1;
      coordinator_.over_failed_ = true;  // what is held stays
      _exit(Agent(coordinator_, options(fs)).Run().ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ++points;
    reports_.clear();
    coordinator_.staged_.clear();
    coordinator_.tasks_ = 1;
    ASSERT_OK(Agent(coordinator_, options(FileSystem::Default())).Run());
    EXPECT_EQ(coordinator_.staged_, reference);
    ASSERT_THAT(reports_, SizeIs(1));
    resent += reports_[0].resent;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      EXPECT_FALSE(entry.is_regular_file()) << entry.path() << " is left";
    }
    if (HasFailure()) break;
  }
  // Six steps of training, each a file of some operations, then the update's.
  EXPECT_GT(points, 40);
  EXPECT_GT(gone_on, 20);
  EXPECT_GE(resent, GetParam() ? 2 : 0);
}

INSTANTIATE_TEST_SUITE_P(Updates, PowerlessAgentTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Synced" : "NotSynced"; });

}  // namespace
}  // namespace rivulet
