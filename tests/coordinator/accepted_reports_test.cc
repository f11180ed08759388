// server.checkpoint_reports. Property: wherever a coordinator dies, no client or site is asked again for an
// acknowledged update or partial sum. Each update is in a version once, and the models are those of an undisturbed
// run.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "killed_run.h"
#include "test_run.h"
#include "tests/testing/status_matchers.h"
#include "tiny_sites.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

constexpr int64_t kReportedRounds = 3, kReporters = 4, kReportCohort = 3;

CoordinatorOptions KeepsReports(const std::string& db, const std::string& durability = "round") {
  CoordinatorOptions options;
  options.scenario = TinyScenario(kReporters, kReportCohort, kReportedRounds);
  options.scenario.run.durability = durability;
  options.scenario.server.checkpoint_reports = true;
  options.db_path = db;
  return options;
}

RunParts BasedOn(bool latest) {
  RunParts parts = TinyParts(3, kReportCohort);
  if (!latest) return parts;
  parts.policy = {TaskPolicy::Base::kLatest, kReporters - 1, 4, 0.5};
  parts.aggregation.staleness_bits = kStalenessBits;
  return parts;
}

// What clients remember of their acknowledged updates, on disks that outlive the coordinator.
std::multiset<TaskId> Acknowledged(const std::string& path) {
  std::multiset<TaskId> tasks;
  std::ifstream file(path);
  for (std::string task; std::getline(file, task);) tasks.insert(task);
  return tasks;
}

void Remember(const std::string& path, const TaskId& task) { std::ofstream(path, std::ios::app) << task << "\n"; }

// The id of a run whose clients write down what is acknowledged; FAILED_PRECONDITION: one was asked for it again.
StatusOr<std::string> RunAndRemember(CoordinatorOptions options, const RunParts& parts, const std::string& path) {
  FakeFleet fleet(options);
  Status asked_again;
  const std::multiset<TaskId> before = Acknowledged(path);
  fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    if (before.contains(task.id)) asked_again = FailedPrecondition("{} is requested again", task.id);
    const auto sent = FakeFleet::Work(coordinator, client_id, task);
    if (sent.ok() && sent->kind == SubmitResult::Kind::kAccepted) Remember(path, task.id);
  };
  RIVULET_ASSIGN_OR_RETURN(auto coordinator, CreateCoordinator(options, parts));
  RIVULET_RETURN_IF_ERROR(fleet.Run(*coordinator, Names(kReporters)));
  RIVULET_RETURN_IF_ERROR(asked_again);
  return coordinator->run_id();
}

// The same by one site of another process, which sends partials and has no disk.
Status RunBySiteAndRemember(const CoordinatorOptions& options, const RunParts& parts, const std::string& path) {
  const std::multiset<TaskId> before = Acknowledged(path);
  Status asked_again;
  SiteWatch watch;
  watch.given = [&](const TaskId& task) {
    if (before.contains(task)) asked_again = FailedPrecondition("{} is requested again", task);
  };
  watch.acknowledged = [&](const std::vector<TaskRecord>& records) {
    for (const TaskRecord& record : records) Remember(path, record.task);
  };
  RIVULET_RETURN_IF_ERROR(RunTinySite(options, parts, kReporters, SitePlace::kAnother, watch).status());
  return asked_again;
}

std::vector<std::string> ReportsOf(const std::string& db) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(db + ".models")) {
    const std::string ending = entry.path().extension();
    if (ending == ".report" || ending == ".partial") files.push_back(entry.path());
  }
  return files;
}

struct ReportsCase {
  const char* durability;
  bool latest;
  int first;  // of every fifth of its durable operations
  bool site = false;
};
class AcceptedReportsKillTest : public ::testing::TestWithParam<ReportsCase> {};
INSTANTIATE_TEST_SUITE_P(Matrix, AcceptedReportsKillTest,
                         ::testing::Values(ReportsCase{"round", false, 1}, ReportsCase{"round", false, 3},
                                           ReportsCase{"second", false, 2}, ReportsCase{"end", false, 4},
                                           ReportsCase{"round", true, 5}, ReportsCase{"end", true, 3},
                                           ReportsCase{"round", false, 1, true}, ReportsCase{"second", false, 2, true},
                                           ReportsCase{"end", false, 3, true}, ReportsCase{"round", true, 4, true}),
                         [](const auto& info) {
                           const ReportsCase& c = info.param;
                           return fmt::format("{}_{}_{}{}", c.durability, c.latest ? "latest" : "committed", c.first,
                                              c.site ? "_site" : "");
                         });

TEST_P(AcceptedReportsKillTest, AtDurableOperations_NothingAcknowledgedIsLostOrAskedForAgain) {
  const ReportsCase& c = GetParam();
  TestFolder reference_folder;
  const auto reference = RunTiny(KeepsReports(reference_folder.db()), BasedOn(c.latest), kReporters);
  ASSERT_OK(reference);

  const auto run = [&](const CoordinatorOptions& options, const std::string& path) -> StatusOr<bool> {
    if (c.site) {
      RIVULET_RETURN_IF_ERROR(RunBySiteAndRemember(options, BasedOn(c.latest), path));
    } else {
      RIVULET_RETURN_IF_ERROR(RunAndRemember(options, BasedOn(c.latest), path).status());
    }
    return true;
  };
  int points = 0;
  size_t survived = 0;
  for (int victim = c.first;; victim += 5) {
    SCOPED_TRACE(fmt::format("killed at operation {}", victim));
    TestFolder folder;
    const std::string path = folder.File("acknowledged");
    ASSERT_OK((*History::Open(folder.db(), History::Access::kReadWrite))->Close());
    CoordinatorOptions options = KeepsReports(folder.db(), c.durability);
    if (testing::EndsBefore(victim, options, [&](const CoordinatorOptions& doomed) { return run(doomed, path); }))
      break;
    ++points;
    survived += Acknowledged(path).size();
    {
      auto history = History::Open(folder.db(), History::Access::kReadOnly);
      ASSERT_OK(history);
      if ((*history)->ResolveRun("latest").ok()) options.resume = "latest";
    }
    ASSERT_OK(run(options, path));

    auto history = History::Open(folder.db(), History::Access::kReadOnly);
    ASSERT_OK(history);
    const std::string run_id = (*history)->ResolveRun("latest")->run_id;
    std::multiset<TaskId> folded;
    for (const ClientRoundRow& task : Value((*history)->ClientRounds(run_id))) {
      if (task.status == "folded") folded.insert(task.task_id);
    }
    const std::multiset<TaskId> acknowledged = Acknowledged(path);
    for (const TaskId& task : acknowledged) {
      if (!c.latest) {
        EXPECT_EQ(folded.count(task), 1u) << task;
      }
      EXPECT_EQ(acknowledged.count(task), 1u) << task;
    }
    if (!c.latest) {
      EXPECT_EQ(*DigestsOfRun(folder.db(), run_id), *reference);
    }
    EXPECT_THAT(ReportsOf(folder.db()), IsEmpty());
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(points, 20);
  EXPECT_GT(survived, 20u);
}

class AcceptedReportsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Coordinator> Open(CoordinatorOptions options, const std::string& resume = "") {
    options.resume = resume;
    options.observer.on_event = [this](const EventRow& event) { events_.push_back(event.message); };
    auto coordinator = CreateCoordinator(options, BasedOn(false));
    EXPECT_OK(coordinator);
    return coordinator.ok() ? *std::move(coordinator) : nullptr;
  }
  // The task of a client that has one; sends its update.
  Task SendOne(Coordinator& coordinator) {
    for (const std::string& name : Names(kReporters)) {
      const PollReply reply = Value(coordinator.Poll(AskedBy(name)));
      if (reply.tasks.empty()) continue;
      EXPECT_EQ(Value(FakeFleet::Work(coordinator, name, reply.tasks[0])).kind, SubmitResult::Kind::kAccepted);
      return reply.tasks[0];
    }
    ADD_FAILURE() << "nobody has a task";
    return {};
  }

  TestFolder folder_;
  std::vector<std::string> events_;
};

TEST_F(AcceptedReportsTest, StoppedWithOneReport_CountsItWhenItGoesOnAndSaysSo) {
  TaskId task;
  std::string client;
  {
    const auto coordinator = Open(KeepsReports(folder_.db()));
    ASSERT_OK(Join(*coordinator, Names(kReporters)));
    const Task sent = SendOne(*coordinator);
    task = sent.id, client = sent.client_id;
    ASSERT_EQ(ReportsOf(folder_.db()).size(), 1u);
    EXPECT_EQ(std::filesystem::status(ReportsOf(folder_.db())[0]).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  const auto coordinator = Open(KeepsReports(folder_.db()), "latest");
  const PollReply reply = Value(coordinator->Poll(AskedBy(client)));
  EXPECT_THAT(reply.tasks, IsEmpty());
  const RunStatus standing = coordinator->Standing();
  bool folded = true;
  for (const RunStatus::Work& work : standing.work) folded = folded && work.task != task;
  EXPECT_TRUE(folded);
  coordinator->Stop();
  EXPECT_THAT(events_, Contains(fmt::format("the update of client '{}' that was acknowledged before the restart is "
                                            "counted",
                                            client)));
}

TEST_F(AcceptedReportsTest, DamagedReport_IsAskedForAgainAndSaid) {
  std::string client;
  {
    const auto coordinator = Open(KeepsReports(folder_.db()));
    ASSERT_OK(Join(*coordinator, Names(kReporters)));
    client = SendOne(*coordinator).client_id;
  }
  const std::string path = ReportsOf(folder_.db())[0];
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  const auto coordinator = Open(KeepsReports(folder_.db()), "latest");
  EXPECT_EQ(Value(coordinator->Poll(AskedBy(client))).tasks.size(), 1u);
  EXPECT_THAT(ReportsOf(folder_.db()), IsEmpty());
  coordinator->Stop();
  EXPECT_THAT(events_, Contains(HasSubstr("cannot be counted: ")));
}

// What is counted is there, and needs no room.
TEST_F(AcceptedReportsTest, FullDiskWhenItGoesOn_ItsReportsAreCounted) {
  std::string client;
  {
    const auto coordinator = Open(KeepsReports(folder_.db()));
    ASSERT_OK(Join(*coordinator, Names(kReporters)));
    client = SendOne(*coordinator).client_id;
  }
  FaultyFileSystem fs;
  fs.at = [&](const std::string& point) -> Status {
    if (point.starts_with("create ") && point.find(".report") != point.npos) {
      return absl::ResourceExhaustedError("no space left on the device");
    }
    return absl::OkStatus();
  };
  CoordinatorOptions options = KeepsReports(folder_.db());
  options.file_system = &fs;
  const auto coordinator = Open(options, "latest");
  EXPECT_THAT(Value(coordinator->Poll(AskedBy(client))).tasks, IsEmpty());
  EXPECT_EQ(ReportsOf(folder_.db()).size(), 1u);
  coordinator->Stop();
  EXPECT_THAT(events_, Contains(HasSubstr("that was acknowledged before the restart is counted")));
}

TEST_F(AcceptedReportsTest, DiskThatFailsWhenItGoesOn_IsSaidAndTheReportStays) {
  std::string client;
  {
    const auto coordinator = Open(KeepsReports(folder_.db()));
    ASSERT_OK(Join(*coordinator, Names(kReporters)));
    client = SendOne(*coordinator).client_id;
  }
  FaultyFileSystem fs;
  fs.at = [&](const std::string& point) -> Status {
    if (point.starts_with("sync-folder ") && point.ends_with("/reports")) {
      return absl::ResourceExhaustedError("no space left on the device");
    }
    return absl::OkStatus();
  };
  CoordinatorOptions options = KeepsReports(folder_.db());
  options.file_system = &fs;
  const auto coordinator = Open(options, "latest");
  EXPECT_EQ(Value(coordinator->Poll(AskedBy(client))).tasks.size(), 1u);
  EXPECT_EQ(ReportsOf(folder_.db()).size(), 1u);
  coordinator->Stop();
  EXPECT_THAT(events_, Contains(AllOf(HasSubstr("cannot be counted: "), HasSubstr("no space left on the device"),
                                      HasSubstr("it is requested again, and stays on disk until it arrives"))));
}

TEST_F(AcceptedReportsTest, FullDisk_AcknowledgesNothingUntilThereIsRoom) {
  FaultyFileSystem fs;
  bool full = true;
  fs.at = [&](const std::string& point) -> Status {
    if (full && point.starts_with("create ") && point.find(".report") != point.npos) {
      return absl::ResourceExhaustedError("no space left on the device");
    }
    return absl::OkStatus();
  };
  CoordinatorOptions options = KeepsReports(folder_.db());
  options.file_system = &fs;
  const auto coordinator = Open(options);
  ASSERT_OK(Join(*coordinator, Names(kReporters)));
  for (const std::string& name : Names(kReporters)) {
    const PollReply reply = Value(coordinator->Poll(AskedBy(name)));
    if (reply.tasks.empty()) continue;
    full = true;
    EXPECT_THAT(FakeFleet::Work(*coordinator, name, reply.tasks[0]),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no space left on the device; ask again")));
    full = false;
    EXPECT_EQ(Value(FakeFleet::Work(*coordinator, name, reply.tasks[0])).kind, SubmitResult::Kind::kAccepted);
    break;
  }
  coordinator->Stop();
  EXPECT_THAT(events_, Contains(HasSubstr("updates cannot be kept, and are not acknowledged")));
}

TEST_F(AcceptedReportsTest, RefusedUpdate_LeavesNoReport) {
  const auto coordinator = Open(KeepsReports(folder_.db()));
  ASSERT_OK(Join(*coordinator, Names(kReporters)));
  for (const std::string& name : Names(kReporters)) {
    const PollReply reply = Value(coordinator->Poll(AskedBy(name)));
    if (reply.tasks.empty()) continue;
    const std::string update = MakeUpdate({NAN, 0, 0}, 5);
    EXPECT_EQ(Value(Send(*coordinator, name, reply.tasks[0].id, update)).kind, SubmitResult::Kind::kRefused);
    break;
  }
  EXPECT_THAT(ReportsOf(folder_.db()), IsEmpty());
  coordinator->Stop();
}

}  // namespace
}  // namespace rivulet
