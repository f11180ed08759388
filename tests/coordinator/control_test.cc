// Operators' commands at a coordinator of small runs: listing, banning, admitting and removing clients; pausing and
// ending runs; the records of these commands, and their effect after a restart.
#include "coordinator/control/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "coordinator/coordinator.h"
#include "tests/coordinator/test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const OperatorCaller kAlice = {"alice", "0F"};

// A coordinator process: what is kept in the history outlives it.
class ControlTest : public ::testing::Test {
 protected:
  struct Process {
    explicit Process(bool outlives_runs) : host(outlives_runs), roster(host, [this] { return now; }) {}
    int64_t now = 1'700'000'000'000;
    CoordinatorHost host;
    ClientRegistry roster;
    std::unique_ptr<Control> control;
  };
  void Begin(bool outlives_runs = false, std::function<StatusOr<std::string>(const RunSubmission&)> start = nullptr) {
    process_ = std::make_unique<Process>(outlives_runs);
    start_ = std::move(start);
  }
  void Open() {
    auto control = Control::Create({.host = &process_->host,
                                    .roster = &process_->roster,
                                    .db_path = folder_.db(),
                                    .now_unix_ms = [process = process_.get()] { return process->now; },
                                    .start = start_});
    ASSERT_OK(control);
    process_->control = *std::move(control);
  }
  std::shared_ptr<Coordinator> Serve(const std::string& name, int64_t rounds = 3, const std::string& resume = "") {
    CoordinatorOptions options;
    options.scenario = TinyScenario(3, 3, rounds);
    options.scenario.run.name = name;
    options.db_path = folder_.db();
    options.resume = resume;
    auto run = CreateCoordinator(std::move(options), TinyParts(6, 3));
    EXPECT_OK(run);
    std::shared_ptr<Coordinator> shared = *std::move(run);
    EXPECT_OK(process_->host.Add(shared));
    return shared;
  }
  StatusOr<std::string> Do(const std::string& action, const std::string& subject, const std::string& detail = "") {
    return process_->control->Command(kAlice, {action, subject, detail});
  }
  std::map<std::string, ClientState> Clients() {
    std::map<std::string, ClientState> clients;
    const auto page = process_->control->Clients(kAlice, "");
    EXPECT_OK(page);
    for (const ClientState& client : page->clients) clients[client.client_id] = client;
    return clients;
  }
  // The task that it has, or gets.
  Task TaskFor(const std::string& name) {
    const auto reply = process_->roster.Poll(AskedBy(name));
    EXPECT_OK(reply);
    EXPECT_EQ(reply->tasks.size(), 1u) << name;
    return reply->tasks.empty() ? Task{} : reply->tasks[0];
  }
  void Work(const std::string& name) {
    const Task task = TaskFor(name);
    EXPECT_OK(Send(process_->roster, name, task.id, MakeUpdate({1, 2, 3, 4, 5, 6}, 5)));
  }
  std::vector<std::string> Audit() {
    std::vector<std::string> lines;
    const auto entries = process_->control->Audit(kAlice);
    EXPECT_OK(entries);
    for (const AuditEntry& e : *entries)
      lines.push_back(fmt::format("{} {} {} {} {}", e.operator_id, e.serial, e.action, e.client_id, e.detail));
    return lines;
  }

  TestFolder folder_;
  std::function<StatusOr<std::string>(const RunSubmission&)> start_;
  std::unique_ptr<Process> process_;
};

// Of a deployment that lives for years: who is to be brought up to date, before the protocol changes.
TEST_F(ControlTest, Clients_SaysWithWhichSoftwareEachCalledLast) {
  Begin();
  const auto run = Serve("study");
  Open();
  const auto called = [&](const std::string& version) {
    PollRequest request = AskedBy("client-00000");
    request.capabilities.version = version;
    EXPECT_OK(process_->roster.Poll(request));
    return Clients()["client-00000"].version;
  };
  EXPECT_EQ(called("0.9.1"), "0.9.1");
  EXPECT_EQ(called("1.0.0"), "1.0.0");
  EXPECT_EQ(called("\x1B[31m" + std::string(100, '1')), "?[31m" + std::string(35, '1') + "…");
  EXPECT_EQ(Clients()["client-00001"].version, "") << "it has not called";
  PollRequest aggregator{As("east"), {.version = "1.0.1"}};
  aggregator.serves = {.kind = Serves::Kind::kNames, .names = {{"client-00002", AskedBy("").capabilities.datasets}}};
  ASSERT_OK(process_->roster.Poll(aggregator));
  EXPECT_EQ(Clients()["east"].version, "1.0.1");
  EXPECT_EQ(Clients()["client-00002"].via, "east");
  EXPECT_EQ(Clients()["client-00002"].version, "") << "the aggregator speaks for it";
  run->Stop();
}

TEST_F(ControlTest, Clients_SaysWhoWorksOnWhatAndWhoIsAway) {
  Begin();
  const auto run = Serve("study");
  Open();
  PollRequest first = AskedBy("client-00000");
  first.caller.certificate_serial = "0A";
  first.caller.certificate_until = 1'800'000'000;
  ASSERT_OK(process_->roster.Poll(first));
  ASSERT_OK(process_->roster.Poll(AskedBy("client-00001")));
  EXPECT_EQ(Clients()["client-00000"].state, "connected");
  EXPECT_EQ(Clients()["client-00000"].task, "");
  ASSERT_OK(process_->roster.Poll(AskedBy("client-00002")));
  const Task task = TaskFor("client-00001");
  const ClientState working = Clients()["client-00001"];
  EXPECT_EQ(working.task, task.id);
  EXPECT_EQ(working.run_id, run->run_id());
  EXPECT_EQ(working.round, 1);
  EXPECT_EQ(working.doing, "taken");
  EXPECT_NE(working.since_unix_ms, 0);
  EXPECT_EQ(Clients()["client-00000"].serial, "0A");
  EXPECT_EQ(Clients()["client-00000"].valid_until_unix_ms, 1'800'000'000'000);
  ASSERT_OK(process_->roster.Fail(As("client-00001"), {.task = task.id, .code = TaskFailure::Code::kBadExample}));
  EXPECT_NE(Clients()["client-00001"].error, "");
  EXPECT_THAT(process_->roster.Poll(AskedBy("nobody", 0)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Clients()["nobody"].error, HasSubstr("has no examples"));
  process_->now += 10'000'000;
  EXPECT_EQ(Clients()["client-00000"].state, "away");
  const auto page = process_->control->Clients(kAlice, "client-00001");
  ASSERT_OK(page);
  ASSERT_EQ(page->clients.size(), 2u);
  EXPECT_EQ(page->clients[0].client_id, "client-00002");
  run->Stop();
}

TEST_F(ControlTest, TwoProcessesOfOneName_AreToldApartFromOneThatWasStartedAgain) {
  Begin();
  const auto run = Serve("study");
  Open();
  std::vector<std::string> said;
  process_->roster.OnDoubled([&said](const std::string& sentence) { said.push_back(sentence); });
  const auto poll = [&](uint64_t session, const std::string& name = "client-00000") {
    PollRequest request = AskedBy(name);
    request.caller.session = session;
    ASSERT_OK(process_->roster.Poll(request));
  };
  // Started again, and once more; a poll of the first one was still held.
  for (const uint64_t session : {1, 1, 2, 1, 2, 3, 3, 4}) poll(session);
  for (const uint64_t session : {5, 6}) poll(session, "client-00001");
  EXPECT_THAT(said, ::testing::IsEmpty());
  EXPECT_EQ(Clients()["client-00000"].error, "");
  // Two machines with one kit.
  for (const uint64_t session : {5, 4, 5, 4, 5, 4}) poll(session);
  EXPECT_THAT(said,
              ::testing::ElementsAre(HasSubstr("two processes call as 'client-00000' and take its tasks in turn")));
  EXPECT_THAT(Clients()["client-00000"].error, HasSubstr("two processes use this name in turn"));
  process_->now += 61'000;
  for (const uint64_t session : {5, 4}) poll(session);
  EXPECT_EQ(said.size(), 2u);
  run->Stop();
}

TEST_F(ControlTest, Ban_EndsTheLeaseAndRefusesEveryCallAlsoAfterARestart) {
  Begin();
  std::shared_ptr<Coordinator> run = Serve("study");
  const std::string run_id = run->run_id();
  Open();
  ASSERT_OK(Join(process_->roster, Names(3)));
  const Task task = TaskFor("client-00001");
  ASSERT_OK_AND_ASSIGN(const std::string sentence, Do("ban", "client-00001", "it sends noise"));
  EXPECT_EQ(sentence, "client 'client-00001' is banned");
  const auto banned = StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("is banned here: it sends noise"));
  const auto refused_everywhere = [&] {
    EXPECT_THAT(process_->roster.Poll(AskedBy("client-00001")), banned);
    EXPECT_THAT(process_->roster.Fetch(As("client-00001"), {}, 0), banned);
    EXPECT_THAT(process_->roster.Submit(As("client-00001"), {.task = task.id, .bytes = 1}), banned);
    EXPECT_THAT(process_->roster.Fail(As("client-00001"), {.task = task.id}), banned);
  };
  refused_everywhere();
  EXPECT_EQ(Clients()["client-00001"].state, "banned");
  EXPECT_EQ(Clients()["client-00001"].detail, "it sends noise");
  EXPECT_EQ(Clients()["client-00001"].task, "");
  EXPECT_THAT(Do("remove", "client-00001"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("approve it")));

  run->Stop();
  EXPECT_THAT(run->Wait(), StatusIs(absl::StatusCode::kCancelled));
  run.reset();
  Begin();
  run = Serve("study", 3, run_id);
  Open();
  refused_everywhere();
  EXPECT_THAT(Audit(), ElementsAre("alice 0F ban client-00001 it sends noise"));
  // The others go on without it; nobody waits for it to be there.
  Work("client-00000");
  Work("client-00002");
  ASSERT_OK(Do("approve", "client-00001"));
  EXPECT_OK(process_->roster.Poll(AskedBy("client-00001")));
  run->Stop();
}

TEST_F(ControlTest, Ban_OfAnAggregatorsClient_IsToldToTheAggregator) {
  Begin();
  const auto run = Serve("study");
  Open();
  ASSERT_OK(Do("ban", "client-00001"));
  PollRequest aggregator = AskedBy("east");
  aggregator.serves.kind = Serves::Kind::kNames;
  aggregator.serves.names = {{"client-00000", {{"train", 5}}}, {"client-00001", {{"train", 5}}}};
  ASSERT_OK_AND_ASSIGN(const PollReply reply, process_->roster.Poll(aggregator));
  ASSERT_EQ(reply.refused_names.size(), 1u);
  EXPECT_EQ(reply.refused_names[0].name, "client-00001");
  EXPECT_THAT(reply.refused_names[0].reason, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("banned")));
  EXPECT_EQ(Clients()["client-00000"].via, "east");
  EXPECT_EQ(Clients()["east"].doing, "aggregator");
  run->Stop();
}

TEST_F(ControlTest, Revoked_IsShownAndItsLeaseEndsAtTheRefusal) {
  Begin();
  const auto run = Serve("study");
  Open();
  const auto poll = [&](const std::string& serial) {
    PollRequest request = AskedBy("client-00001");
    request.caller.certificate_serial = serial;
    return process_->roster.Poll(request);
  };
  for (const char* name : {"client-00000", "client-00002"}) EXPECT_OK(process_->roster.Poll(AskedBy(name)));
  auto reply = poll("AA");
  ASSERT_OK(reply);
  ASSERT_FALSE(reply->tasks.empty());
  EXPECT_EQ(Clients()["client-00001"].task, reply->tasks[0].id);

  process_->now += 1000;
  process_->control->Revoked("client-00001", "AA",
                             "the certificate AA of 'client/client-00001' was revoked on 2026-11-28");
  ClientState state = Clients()["client-00001"];
  EXPECT_EQ(state.state, "revoked");
  EXPECT_EQ(state.task, "") << "its lease has ended";
  EXPECT_THAT(state.error, HasSubstr("was revoked on 2026-11-28"));
  EXPECT_EQ(state.error_unix_ms, process_->now);

  // Refused again, nothing new is said; a certificate issued since counts.
  process_->now += 1000;
  process_->control->Revoked("client-00001", "AA", "again");
  EXPECT_EQ(Clients()["client-00001"].error_unix_ms, process_->now - 1000);
  reply = poll("BB");
  ASSERT_OK(reply);
  EXPECT_EQ(Clients()["client-00001"].state, "connected");
}

// Whoever has a revoked key must not end the leases of the name's new certificate.
TEST_F(ControlTest, RevokedCertificateOfANameThatHasAnother_ChangesNothing) {
  Begin();
  const auto run = Serve("study");
  Open();
  for (const char* name : {"client-00000", "client-00002"}) EXPECT_OK(process_->roster.Poll(AskedBy(name)));
  PollRequest request = AskedBy("client-00001");
  request.caller.certificate_serial = "BB";
  const auto reply = process_->roster.Poll(request);
  ASSERT_OK(reply);
  ASSERT_FALSE(reply->tasks.empty());
  process_->control->Revoked("client-00001", "AA", "the certificate AA was revoked");
  EXPECT_EQ(Clients()["client-00001"].state, "connected");
  EXPECT_EQ(Clients()["client-00001"].task, reply->tasks[0].id);
}

TEST_F(ControlTest, RevokedWhomNobodyHasHeardOf_IsShown) {
  Begin();
  const auto run = Serve("study");
  Open();
  process_->control->Revoked("client-00009", "AA", "the certificate AA was revoked");
  EXPECT_EQ(Clients()["client-00009"].state, "revoked");
}

// Without a list of clients an aggregator's word is all that there is; its names take no more places than it may.
TEST_F(ControlTest, AggregatorThatInventsNames_IsBoundedAndOthersHaveTheirPlaces) {
  Begin();
  process_->roster.BoundAggregators(1);
  const auto run = Serve("study");  // of three clients
  Open();
  PollRequest aggregator{As("east"), {.version = "1"}};
  aggregator.serves = {.kind = Serves::Kind::kNames};
  for (int i = 0; i < 5; ++i) {
    aggregator.serves.names.push_back({fmt::format("invented-{}", i), AskedBy("").capabilities.datasets});
  }
  const auto reply = process_->roster.Poll(aggregator);
  ASSERT_OK(reply);
  ASSERT_EQ(reply->refused_names.size(), 4u);
  for (const RefusedName& refused : reply->refused_names) {
    EXPECT_THAT(refused.reason, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the most allowed")));
  }
  EXPECT_OK(process_->roster.Poll(AskedBy("client-00001")));
  EXPECT_OK(process_->roster.Poll(AskedBy("client-00002")));
  // The name that it has is its own as before.
  aggregator.serves.names = {{"invented-0", AskedBy("").capabilities.datasets}};
  const auto again = process_->roster.Poll(aggregator);
  ASSERT_OK(again);
  EXPECT_THAT(again->refused_names, IsEmpty());
}

TEST_F(ControlTest, CertifiedClientWithoutAPlace_WaitsAndHearsForWhat) {
  Begin();
  const auto run = Serve("study");
  Open();
  for (const char* name : {"client-00000", "client-00001", "client-00002"}) {
    EXPECT_OK(process_->roster.Poll(AskedBy(name)));
  }
  PollRequest late = AskedBy("late");
  EXPECT_THAT(process_->roster.Poll(late).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  late.caller.proven = Caller::Proven::kClient;
  const auto reply = process_->roster.Poll(late);
  ASSERT_OK(reply);
  EXPECT_THAT(reply->awaited.sentence, HasSubstr("'late' is one too many, and waits for another run"));
  EXPECT_GE(reply->wait_ms, 1000);
  EXPECT_THAT(reply->tasks, IsEmpty());
  EXPECT_THAT(Clients()["late"].error, HasSubstr("one too many"));
  // Of an aggregator's client the same is said by a code that lets it wait.
  PollRequest aggregator{As("east"), {.version = "1"}};
  aggregator.serves = {.kind = Serves::Kind::kNames, .names = {{"later", AskedBy("").capabilities.datasets}}};
  const auto told = process_->roster.Poll(aggregator);
  ASSERT_OK(told);
  ASSERT_EQ(told->refused_names.size(), 1u);
  EXPECT_THAT(told->refused_names[0].reason,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("waits for another run")));
}

TEST_F(ControlTest, Remove_SendsAwayUntilItComesAgain) {
  Begin();
  const auto run = Serve("study");
  Open();
  ASSERT_OK(Join(process_->roster, Names(3)));
  ASSERT_OK(Do("remove", "client-00002", "moved"));
  EXPECT_EQ(Clients()["client-00002"].state, "removed");
  EXPECT_EQ(run->Standing().state.clients, 2);
  ASSERT_OK(process_->roster.Poll(AskedBy("client-00002")));
  EXPECT_EQ(run->Standing().state.clients, 3);
  EXPECT_EQ(Clients()["client-00002"].state, "connected");
  ASSERT_OK_AND_ASSIGN(const std::string sentence, Do("remove", "never seen"));
  EXPECT_THAT(sentence, HasSubstr("it was in no run"));
  run->Stop();
}

TEST_F(ControlTest, Pause_MakesTheOpenRoundAndResumeGoesOn) {
  Begin();
  const auto run = Serve("study", 2);
  Open();
  ASSERT_OK(Join(process_->roster, Names(3)));
  ASSERT_OK_AND_ASSIGN(const std::string paused, Do("pause", ""));
  EXPECT_THAT(paused, HasSubstr("0 of 3 updates of round 1 are in; waiting for client 'client-"));
  EXPECT_THAT(paused, HasSubstr("then it is paused"));
  for (const std::string& name : Names(3)) Work(name);
  while (run->Standing().state.state != "waiting") std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_OK_AND_ASSIGN(const auto states, process_->control->Runs(kAlice));
  ASSERT_EQ(states.runs.size(), 1u);
  EXPECT_TRUE(states.runs[0].paused);
  EXPECT_EQ(states.runs[0].awaits, "the run is paused by its operator; round 2 starts when it is resumed");
  ASSERT_OK_AND_ASSIGN(const PollReply idle, process_->roster.Poll(AskedBy("client-00000")));
  EXPECT_THAT(idle.tasks, IsEmpty());
  ASSERT_OK(Do("resume", "study"));
  for (const std::string& name : Names(3)) Work(name);
  EXPECT_OK(run->Wait());
  EXPECT_THAT(Do("pause", run->run_id()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is over (finished)")));
  EXPECT_THAT(Audit(), ElementsAre("alice 0F pause  ", "alice 0F resume  "));
}

TEST_F(ControlTest, Stop_MakesTheOpenRoundAndAbortDoesNot) {
  Begin();
  const auto stopped = Serve("stopped");
  const auto aborted = Serve("aborted");
  Open();
  ASSERT_OK(Join(*stopped, Names(3)));
  ASSERT_OK(Join(*aborted, Names(3)));
  EXPECT_THAT(Do("stop", ""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("say which")));
  EXPECT_THAT(Do("stop", "other"), StatusIs(absl::StatusCode::kNotFound, HasSubstr(stopped->run_id())));
  ASSERT_OK_AND_ASSIGN(const std::string sentence, Do("stop", "stopped"));
  EXPECT_THAT(sentence, HasSubstr("ends once round 1 is committed"));
  EXPECT_FALSE(stopped->over());
  ASSERT_OK(Do("abort", "aborted", "wrong data"));
  EXPECT_THAT(aborted->Wait(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("after round 0")));
  for (const std::string& name : Names(3)) {
    PollRequest request = AskedBy(name);
    request.caller.run_id = stopped->run_id();
    ASSERT_OK_AND_ASSIGN(const PollReply reply, stopped->Poll(request));
    ASSERT_EQ(reply.tasks.size(), 1u);
    EXPECT_OK(Send(*stopped, name, reply.tasks[0].id, MakeUpdate({1, 2, 3, 4, 5, 6}, 5)));
  }
  EXPECT_THAT(stopped->Wait(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("after round 1")));
}

TEST_F(ControlTest, WhatNobodyCanDo_IsRefusedAndNotWrittenDown) {
  Begin();
  Open();
  EXPECT_THAT(Do("praise", "x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'praise'")));
  EXPECT_THAT(Do("ban", ""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Do("ban", "x", std::string(2000, 'x')), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1000")));
  EXPECT_THAT(Do("pause", ""), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no run is under way")));
  EXPECT_THAT(process_->control->StartRun(kAlice, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("started without a scenario")));
  EXPECT_THAT(Audit(), IsEmpty());
}

// Clients outlive runs: they are told to wait, take up the next run, and drop what a stopped one gave them.
TEST_F(ControlTest, RunsThatAreSubmitted_FollowEachOtherForTheSameClients) {
  std::shared_ptr<Coordinator> run;
  Begin(true, [&](const RunSubmission& submission) -> StatusOr<std::string> {
    if (submission.scenario.empty()) return InvalidArgument("no scenario");
    run = Serve(submission.scenario, 1);
    return run->run_id();
  });
  Open();
  PollRequest request = AskedBy("client-00000");
  ASSERT_OK_AND_ASSIGN(const PollReply before, process_->roster.Poll(request));
  EXPECT_EQ(before.awaited.sentence, "the next run, which has not begun yet");
  EXPECT_GT(before.wait_ms, 0);
  EXPECT_THAT(process_->control->StartRun(kAlice, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(process_->control->StartRun(kAlice, {"first", ""}));
  ASSERT_OK(Join(process_->roster, Names(3)));
  for (const std::string& name : Names(3)) Work(name);
  EXPECT_OK(run->Wait());
  ASSERT_OK_AND_ASSIGN(const PollReply between, process_->roster.Poll(request));
  EXPECT_FALSE(between.over);
  EXPECT_EQ(between.awaited.sentence, "the next run, which has not begun yet");
  ASSERT_OK(process_->control->StartRun(kAlice, {"second", ""}));
  ASSERT_OK(Join(process_->roster, Names(3)));
  const Task task = TaskFor("client-00000");
  EXPECT_EQ(task.run_id, run->run_id());
  ASSERT_OK(Do("abort", ""));
  request.caller.run_id = task.run_id;
  request.working_on = {{task.id}};
  ASSERT_OK_AND_ASSIGN(const PollReply after, process_->roster.Poll(request));
  EXPECT_THAT(after.cancelled, ElementsAre(task.id));
  EXPECT_THAT(process_->roster.Submit(request.caller, {.task = task.id, .bytes = 1}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("was stopped")));
  EXPECT_THAT(Audit(), ElementsAre("alice 0F submit  ", "alice 0F submit  ", "alice 0F abort  "));
}

// A poll that is answered with a task, or with the end.
class AnsweringApi final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return reply; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  PollReply reply;
};

TEST(RosterTest, EndOfTheRun_IsWaitedForUntilWhoPolledKnows) {
  AnsweringApi api;
  ClientRegistry roster(api, [] { return int64_t{7}; });
  const auto all_know = [&] { return roster.end_notices().WaitUntilAllKnow(std::chrono::milliseconds(0)); };
  EXPECT_TRUE(all_know());
  ASSERT_OK(roster.Poll({.caller = {.name = "a"}}));
  EXPECT_FALSE(all_know());
  roster.Ban("b", "");
  EXPECT_FALSE(roster.Poll({.caller = {.name = "b"}}).ok());
  api.reply.over = PollReply::Over{};
  ASSERT_OK(roster.Poll({.caller = {.name = "a"}}));
  EXPECT_TRUE(all_know()) << "who is banned is not told";
}

TEST(RosterTest, WhoKnocks_WaitsForAnOperatorsWord) {
  CoordinatorHost host;
  ClientRegistry roster(host, [] { return int64_t{7}; });
  roster.Knocked("new", "nobody expects it");
  ASSERT_EQ(roster.Clients("", 10).size(), 1u);
  EXPECT_EQ(roster.Clients("", 10)[0].state, "waiting");
  EXPECT_EQ(roster.counts().waiting, 1);
  EXPECT_FALSE(roster.approved("new"));
  roster.Approve("new");
  EXPECT_TRUE(roster.approved("new"));
  EXPECT_EQ(roster.counts().waiting, 0);
  for (int i = 0; i < 5000; ++i) roster.Knocked(fmt::format("{}", i), "");
  EXPECT_LE(roster.counts().waiting, 1000) << "anybody may try names";
}

}  // namespace
}  // namespace rivulet
