#include "coordinator/ledger/packed_tasks.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using PackedTask = ClosedAttempt::ClosedTask;

PackedTask PlainTask(int number) {
  PackedTask task;
  task.lease.client_id = fmt::format("client-{:05}", number);
  task.lease.task = fmt::format("run-r3-a2-{}-0", task.lease.client_id);
  task.lease.site = number % 2 == 0 ? "worker 0" : "worker 1";
  task.lease.base_round = 2;
  task.lease.state = Lease::State::kFolded;
  task.facts.offered = 1000 + number;
  task.facts.taken = 2000 + number;
  task.facts.examples = task.facts.weight = 6;
  task.facts.steps = 1;
  task.facts.train_loss = 0.5 / (1 + number);
  task.facts.train_seconds = 1e-6 * number;
  task.facts.update_norm = number;
  return task;
}

ClosedAttempt AttemptOf(std::vector<PackedTask> tasks) {
  ClosedAttempt attempt;
  attempt.run_id = "run";
  attempt.round = 3;
  attempt.number = 2;
  attempt.tasks = std::move(tasks);
  return attempt;
}

TEST(PackedTasksTest, PlainOnes_AreAsTheyWereInAQuarterOfTheMemory) {
  std::vector<PackedTask> tasks;
  for (int number = 0; number < 1000; ++number) tasks.push_back(PlainTask(number));
  const ClosedAttempt attempt = AttemptOf(tasks);
  const PackedTasks packed(attempt);
  EXPECT_EQ(packed.Unpack(AttemptOf({})), tasks);
  EXPECT_LT(4 * packed.bytes(), 1000 * (sizeof(PackedTask) + tasks[0].lease.task.size()));
}

// Each field by itself, beside a plain task on either side.
TEST(PackedTasksTest, AnyField_ComesBack) {
  const std::vector<std::function<void(PackedTask&)>> changes = {
      [](PackedTask& task) { task.lease.task = "of another form"; },
      [](PackedTask& task) { task.lease.task.back() = '1'; },
      [](PackedTask& task) { task.lease.task = "run-r3-a2-client-00007-00"; },
      [](PackedTask& task) { task.lease.client_id = ""; },
      [](PackedTask& task) { task.lease.client_id = std::string(255, 'x'); },
      [](PackedTask& task) { task.lease.site = ""; },
      [](PackedTask& task) { task.lease.via = "aggregator"; },
      [](PackedTask& task) { task.lease.kind = TaskKind::kEvaluate; },
      [](PackedTask& task) { task.lease.base_round = -1; },
      [](PackedTask& task) { task.lease.ordinal = 65535; },
      [](PackedTask& task) { task.lease.step = 3; },
      [](PackedTask& task) { task.lease.state = Lease::State::kRefused; },
      [](PackedTask& task) { task.lease.expires = 4; },
      [](PackedTask& task) { task.lease.reason = "NaN at element 7"; },
      [](PackedTask& task) { task.lease.arrives = 5; },
      [](PackedTask& task) { task.lease.due = false; },
      [](PackedTask& task) { task.lease.lost = true; },
      [](PackedTask& task) { task.facts = {}; },
      [](PackedTask& task) { task.facts.upload_began = 6; },
      [](PackedTask& task) { task.facts.uploaded = 7; },
      [](PackedTask& task) { task.facts.bytes_down = 8; },
      [](PackedTask& task) { task.facts.bytes_up = 9; },
      [](PackedTask& task) { task.facts.examples = 0; },
      [](PackedTask& task) { task.facts.update_digest = Sha256Of("d"); },
      [](PackedTask& task) {
        task.facts.measures = {{"train/cluster", {2}}, {"rate", Measure::Rate(1, 3)}};
      },
      [](PackedTask& task) { task.facts.lanes = 16; },
      [](PackedTask& task) { task.facts.tf32 = true; },
      [](PackedTask& task) { task.facts.left_state = true; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<PackedTask> tasks = {PlainTask(6), PlainTask(7), PlainTask(8)};
    changes[i](tasks[1]);
    EXPECT_EQ(PackedTasks(AttemptOf(tasks)).Unpack(AttemptOf({})), tasks) << "change " << i;
  }
}

TEST(PackedTasksTest, None_AreNone) {
  EXPECT_TRUE(PackedTasks(AttemptOf({})).empty());
  EXPECT_TRUE(PackedTasks().Unpack(AttemptOf({})).empty());
}

}  // namespace
}  // namespace rivulet
