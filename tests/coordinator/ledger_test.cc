#include "coordinator/ledger/ledger.h"

#include "coordinator/ledger/client_book.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ClosedTask = ClosedAttempt::ClosedTask;

ClosedTask TaskOf(const std::string& client_id, Lease::State state, const std::string& reason = "") {
  ClosedTask task;
  task.lease.task = "tiny-r3-a2-" + client_id + "-1";
  task.lease.client_id = client_id;
  task.lease.base_round = 2;
  task.lease.ordinal = 1;
  task.lease.state = state;
  task.lease.reason = reason;
  task.facts.offered = 1000;
  task.facts.bytes_down = 100;
  return task;
}

ClosedTask FoldedTask(const std::string& client_id, int64_t examples, double train_loss) {
  ClosedTask task = TaskOf(client_id, Lease::State::kFolded);
  task.facts.taken = 1250;
  task.facts.upload_began = 3000;
  task.facts.uploaded = 3500;
  task.facts.bytes_up = 40;
  task.facts.examples = task.facts.weight = examples;
  task.facts.steps = 6;
  task.facts.train_loss = train_loss;
  task.facts.train_seconds = 1.75;
  task.facts.update_norm = 5;
  task.facts.update_digest = Sha256Of("d");
  return task;
}

// Drawn in this order: c and a are folded, b and e refused and failed, d never asked.
ClosedAttempt HandMade() {
  ClosedAttempt attempt;
  attempt.run_id = "tiny";
  attempt.round = 3;
  attempt.number = 2;
  attempt.started_unix_ms = 5'000;
  attempt.started = 1000;
  attempt.closed = 4000;
  attempt.tasks = {FoldedTask("c", 10, 1.0), TaskOf("e", Lease::State::kFailed, "out of memory"),
                   FoldedTask("a", 30, 0.5), TaskOf("b", Lease::State::kRefused, "NaN at element 7"),
                   TaskOf("d", Lease::State::kDropped, "it did not ask for its task")};
  return attempt;
}

AttemptEnd Committed() {
  AttemptEnd end;
  end.status = "committed";
  end.finished_unix_ms = 9'000;
  end.aggregate_seconds = 0.25;
  end.evaluate_seconds = 0.125;
  end.model_digest = Digest{};
  end.central = {{"test/accuracy", Measure::Rate(228, 1000)}, {"test/loss", {0.75}}};
  return end;
}

AttemptEnd NotCommitted(const std::string& status, const std::string& reason) {
  AttemptEnd end;
  end.status = status;
  end.reason = reason;
  end.finished_unix_ms = 9'000;
  return end;
}

std::map<std::string, TaskOutcome> OutcomesByName(const AttemptEnd& end) {
  const auto outcomes = OutcomesOf(HandMade(), end);
  return {outcomes.begin(), outcomes.end()};
}

std::vector<std::string> Messages(const AttemptRecord& record) {
  std::vector<std::string> messages;
  for (const EventRow& event : record.events)
    messages.push_back(event.level + " " + event.source + ": " + event.message);
  return messages;
}

TEST(LedgerTest, Committed_RoundCountsEveryEndAndWeighsTheLoss) {
  const AttemptRecord record = RowsOf(HandMade(), Committed());
  const RoundRow& round = record.round;
  EXPECT_EQ(round.run_id, "tiny");
  EXPECT_EQ(round.round, 3);
  EXPECT_EQ(round.attempt, 2);
  EXPECT_EQ(round.status, "committed");
  EXPECT_EQ(round.started_at, Iso8601(5'000));
  EXPECT_EQ(round.finished_at, Iso8601(9'000));
  EXPECT_EQ(round.selected, 5);
  EXPECT_EQ(round.folded, 2);
  EXPECT_EQ(round.refused, 1);
  EXPECT_EQ(round.failed, 1);
  EXPECT_EQ(round.dropped, 1);
  EXPECT_EQ(round.reported, 3) << "folded and refused";
  EXPECT_EQ(round.examples, 40);
  EXPECT_EQ(round.train_loss, (30 * 0.5 + 10 * 1.0) / 40);
  EXPECT_EQ(round.bytes_down, 500);
  EXPECT_EQ(round.bytes_up, 80);
  EXPECT_EQ(round.train_seconds, 3);
  EXPECT_EQ(round.aggregate_seconds, 0.25);
  EXPECT_EQ(round.evaluate_seconds, 0.125);
  EXPECT_EQ(round.model_digest, std::string(64, '0'));
  EXPECT_FALSE(record.finishes_run);
}

TEST(LedgerTest, Committed_TasksAreInTheOrderOfNamesWithWhatIsKnownOfThem) {
  const AttemptRecord record = RowsOf(HandMade(), Committed());
  ASSERT_EQ(record.tasks.size(), 5u);
  const ClientRoundRow& a = record.tasks[0];
  EXPECT_EQ(a.client_id, "a");
  EXPECT_EQ(a.task_id, "tiny-r3-a2-a-1");
  EXPECT_EQ(a.status, "folded");
  EXPECT_EQ(a.base_round, 2);
  EXPECT_EQ(a.committed_round, 3);
  EXPECT_EQ(a.staleness, 0);
  EXPECT_EQ(a.examples, 30);
  EXPECT_EQ(a.weight, 30);
  EXPECT_EQ(a.steps, 6);
  EXPECT_EQ(a.update_norm, 5);
  EXPECT_EQ(a.wait_seconds, 0.25);
  EXPECT_EQ(a.train_seconds, 1.75);
  EXPECT_EQ(a.upload_seconds, 0.5);
  const ClientRoundRow& b = record.tasks[1];
  EXPECT_EQ(b.client_id, "b");
  EXPECT_EQ(b.status, "refused");
  EXPECT_EQ(b.error, "NaN at element 7");
  EXPECT_EQ(b.committed_round, std::nullopt);
  EXPECT_EQ(b.wait_seconds, std::nullopt) << "nobody noted when it was taken";
  EXPECT_EQ(record.tasks[3].status, "dropped");
  EXPECT_EQ(record.tasks[4].status, "failed");
}

TEST(LedgerTest, Committed_MetricsAreOfTheTestSet) {
  const AttemptRecord record = RowsOf(HandMade(), Committed());
  ASSERT_EQ(record.metrics.size(), 2u);
  EXPECT_EQ(record.metrics[0].scope, "central");
  EXPECT_EQ(record.metrics[0].name, "test/accuracy");
  EXPECT_EQ(record.metrics[0].value, 0.228);
  EXPECT_EQ(record.metrics[0].right, 228);
  EXPECT_EQ(record.metrics[0].total, 1000);
  EXPECT_EQ(record.metrics[1].name, "test/loss");
  EXPECT_EQ(record.metrics[1].value, 0.75);
  EXPECT_EQ(record.metrics[1].total, std::nullopt);
}

TEST(LedgerTest, Committed_EventsNameWhoIsNotInItAndWhatTheAggregationLost) {
  AttemptEnd end = Committed();
  end.warnings = {"half of the coordinates were lost"};
  end.finishes_run = true;
  const AttemptRecord record = RowsOf(HandMade(), end);
  EXPECT_TRUE(record.finishes_run);
  EXPECT_THAT(Messages(record), ::testing::ElementsAre("warning client: 'b' refused: NaN at element 7",
                                                       "warning client: 'd' dropped: it did not ask for its task",
                                                       "warning client: 'e' failed: out of memory",
                                                       "warning aggregation: half of the coordinates were lost",
                                                       "info run: finished after round 3"));
}

TEST(LedgerTest, AnyOrderOfTheTasks_GivesTheSameBits) {
  ClosedAttempt attempt = HandMade();
  // Doubles would lose most of the small loss beside the large ones, more or less by their order.
  attempt.tasks = {FoldedTask("c", 1, 0x1p-30), FoldedTask("b", 3, 4e9), FoldedTask("a", 3, -4e9)};
  const std::optional<double> loss = RowsOf(attempt, Committed()).round.train_loss;
  EXPECT_EQ(loss, 0x1p-30 / 7);
  std::reverse(attempt.tasks.begin(), attempt.tasks.end());
  EXPECT_EQ(RowsOf(attempt, Committed()).round.train_loss, loss);
}

TEST(LedgerTest, Abandoned_NothingIsFolded) {
  const AttemptRecord record = RowsOf(HandMade(), NotCommitted("abandoned", "2 of 4 reports"));
  EXPECT_EQ(record.round.reason, "2 of 4 reports");
  EXPECT_EQ(record.round.folded, 2) << "that is how many there were";
  EXPECT_EQ(record.tasks[0].status, "dropped");
  EXPECT_EQ(record.tasks[0].error, "the round was abandoned");
  EXPECT_EQ(record.tasks[0].committed_round, std::nullopt);
  EXPECT_EQ(record.tasks[1].status, "refused");
  EXPECT_TRUE(record.metrics.empty());
  EXPECT_EQ(Messages(record).back(), "warning round: attempt 2 abandoned: 2 of 4 reports");
}

TEST(LedgerTest, EventsOf_AreThoseOfTheRows) {
  ClosedAttempt attempt = HandMade();
  attempt.tasks.push_back(TaskOf("f", Lease::State::kDropped, EnoughWithout(TaskKind::kTrain)));
  AttemptEnd end = Committed();
  end.warnings = {"0.2 % were lost"};
  end.finishes_run = true;
  for (const AttemptEnd& one : {end, NotCommitted("abandoned", "2 of 4 reports")}) {
    AttemptRecord told;
    told.events = EventsOf(attempt, one);
    EXPECT_EQ(Messages(told), Messages(RowsOf(attempt, one)));
    EXPECT_EQ(told.events.size(), one.finishes_run ? 6u : 5u);
  }
}

TEST(LedgerTest, NoReports_HaveNoLoss) {
  ClosedAttempt attempt = HandMade();
  attempt.tasks = {TaskOf("d", Lease::State::kDropped, "late")};
  EXPECT_EQ(RowsOf(attempt, NotCommitted("abandoned", "none")).round.train_loss, std::nullopt);
}

TEST(LedgerTest, Outcomes_AreEachTasksLastWord) {
  const auto committed = OutcomesByName(Committed());
  ASSERT_EQ(committed.size(), 5u);
  EXPECT_EQ(committed.at("a").task, "tiny-r3-a2-a-1");
  EXPECT_EQ(committed.at("a").end, TaskEnd::kFolded);
  EXPECT_EQ(committed.at("a").reason, "");
  EXPECT_EQ(committed.at("b").end, TaskEnd::kRefused);
  EXPECT_EQ(committed.at("b").reason, "NaN at element 7");
  EXPECT_EQ(committed.at("d").end, TaskEnd::kDropped);
  EXPECT_EQ(committed.at("e").end, TaskEnd::kFailed);

  const auto abandoned = OutcomesByName(NotCommitted("abandoned", "2 of 4 reports"));
  EXPECT_EQ(abandoned.at("a").end, TaskEnd::kDropped);
  EXPECT_EQ(abandoned.at("a").reason, "the round was abandoned: 2 of 4 reports");
  EXPECT_EQ(abandoned.at("b").reason, "NaN at element 7") << "its own";

  const auto failed = OutcomesByName(NotCommitted("failed", "the new model is not finite"));
  EXPECT_EQ(failed.at("c").reason, "round 3 cannot be committed: the new model is not finite");
}

TEST(LedgerTest, OutcomesOf_TaskOfAnotherSite_IsForNobody) {
  ClosedAttempt attempt = HandMade();
  attempt.tasks[0].lease.site = attempt.tasks[0].lease.client_id;
  attempt.tasks[1].lease.site = "worker 0";
  std::vector<std::string> told;
  for (const auto& [client_id, outcome] : OutcomesOf(attempt, {.status = "committed"})) told.push_back(client_id);
  EXPECT_THAT(told, ::testing::Contains(attempt.tasks[0].lease.client_id));
  EXPECT_THAT(told, ::testing::Not(::testing::Contains(attempt.tasks[1].lease.client_id)));
}

TEST(ClientBookTest, TakeSeen_WorkersAtOnceOthersOnceAMinute) {
  using ::testing::ElementsAre;
  using ::testing::Pair;
  ClientBook book;
  const ClosedAttempt nobody;
  for (const char* name : {"a", "x", "y", "z"}) book.Saw(name, 40'000);
  EXPECT_THAT(book.TakeSeen(nobody, 60'000, false), ::testing::SizeIs(4)) << "their rows say that they never polled";
  book.Saw("a", 99'000);  // works on the attempt
  book.Saw("y", 99'500);
  EXPECT_THAT(book.TakeSeen(HandMade(), 99'999, false), ElementsAre(Pair("a", 99'000)));
  book.Saw("a", 100'000);
  EXPECT_THAT(book.TakeSeen(nobody, 100'000, false), ElementsAre(Pair("y", 99'500))) << "z did not poll again";
  EXPECT_TRUE(book.TakeSeen(nobody, 158'999, false).empty()) << "they are written";
  EXPECT_THAT(book.TakeSeen(nobody, 159'000, false), ElementsAre(Pair("a", 100'000)));
  book.Saw("x", 159'500);
  book.Saw("a", 159'500);
  EXPECT_THAT(book.TakeSeen(nobody, 159'500, true),
              ::testing::UnorderedElementsAre(Pair("a", 159'500), Pair("x", 159'500)))
      << "the end of the run leaves nobody out";
}

TEST(ClientBookTest, LastHeard_OfWhoWasHeardOfOnAnyWay) {
  ClientBook book;
  EXPECT_EQ(book.LastHeard("a"), std::nullopt);
  book.Heard("a", 5);
  book.Saw("b", 1000);
  EXPECT_EQ(book.LastHeard("a"), 5);
  EXPECT_EQ(book.LastHeard("b"), std::nullopt) << "a row's time is of another clock";
  EXPECT_THAT(book.TakeSeen(ClosedAttempt(), 2000, true), ::testing::ElementsAre(::testing::Pair("b", 1000)));
  book.Left("a");
  EXPECT_EQ(book.LastHeard("a"), std::nullopt);
}

TEST(ClientBookTest, ShouldLookUp_OnceForWhomNothingIsKnown) {
  ClientBook book;
  book.Remember("a", {"task", TaskEnd::kFolded, ""});
  EXPECT_FALSE(book.ShouldLookUp("a"));
  EXPECT_TRUE(book.ShouldLookUp("b"));
  EXPECT_FALSE(book.ShouldLookUp("b")) << "found or not";
  EXPECT_EQ(book.LastOutcome("a")->task, "task");
  EXPECT_EQ(book.LastOutcome("b"), nullptr);
}

TEST(ClientBookTest, ClientsWhoseSiteSpeaksForThem_AreSeenWithTheirAttempt) {
  ClosedAttempt attempt = HandMade();
  attempt.tasks.resize(1);
  attempt.tasks[0].lease.site = "worker 1";
  ClientBook book;
  EXPECT_THAT(book.TakeSeen(attempt, 100'000, false),
              ::testing::ElementsAre(::testing::Pair(attempt.tasks[0].lease.client_id, 100'000)));
}

}  // namespace
}  // namespace rivulet
