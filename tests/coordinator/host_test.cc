#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "coordinator/host/coordinator_host.h"
#include "tests/coordinator/test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kHostedElements = 6, kHosted = 3;  // clients of every run

class HostTest : public ::testing::Test {
 protected:
  CoordinatorOptions Options(const std::string& name, int64_t rounds, const std::string& folder) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(kHosted, kHosted, rounds);
    options.scenario.run.name = name;
    options.scenario.run.seed = static_cast<uint64_t>(rounds);
    options.db_path = folder_.File(fmt::format("{}-{}.sqlite", folder, name));
    return options;
  }
  // Served by the host; what it commits is told in committed_.
  std::shared_ptr<Coordinator> Serve(const std::string& name, int64_t rounds, RunParts parts) {
    CoordinatorOptions options = Options(name, rounds, "hosted");
    options.observer.on_round = [this, name](const RoundReport& report) {
      MutexLock lock(mutex_);
      committed_.push_back(fmt::format("{} {} {}", name, report.round, report.model_digest.Hex()));
    };
    auto run = CreateCoordinator(std::move(options), std::move(parts));
    EXPECT_OK(run);
    std::shared_ptr<Coordinator> shared = *std::move(run);
    EXPECT_OK(host_.Add(shared));
    return shared;
  }
  std::shared_ptr<Coordinator> Serve(const std::string& name, int64_t rounds) {
    return Serve(name, rounds, TinyParts(kHostedElements, kHosted));
  }
  std::vector<std::string> Alone(const std::string& name, int64_t rounds) {
    const auto digests = RunTiny(Options(name, rounds, "alone"), TinyParts(kHostedElements, kHosted), kHosted);
    EXPECT_OK(digests);
    std::vector<std::string> committed;
    for (const auto& [round, digest] : *digests) committed.push_back(fmt::format("{} {} {}", name, round, digest));
    return committed;
  }
  std::vector<std::string> Committed(const std::string& name) {
    MutexLock lock(mutex_);
    std::vector<std::string> of;
    std::copy_if(committed_.begin(), committed_.end(), std::back_inserter(of),
                 [&](const std::string& line) { return line.starts_with(name); });
    return of;
  }

  // What a client process does, until it is told that all is over.
  PollReply::Over Work(const std::string& name) {
    const auto layout = TinyParts(kHostedElements, kHosted).layout;
    PollRequest request = AskedBy(name);
    while (true) {
      const auto reply = host_.Poll(request);
      EXPECT_OK(reply);
      if (!reply.ok()) return {};
      if (reply->over) return *reply->over;
      if (reply->tasks.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (const Task& task : reply->tasks) {
        request.caller.run_id = task.run_id;
        const auto reader = host_.Fetch(request.caller, task.input("model")->id, 0);
        EXPECT_OK(reader);
        const auto base = ModelFromSafetensors(layout, *ReadToEnd(**reader));
        EXPECT_OK(base);
        EXPECT_OK(Send(host_, name, task.id, MakeUpdate(FakeDelta(task, **base), 10 + (name.back() - '0'))));
      }
    }
  }

  TestFolder folder_;
  Mutex mutex_;
  std::vector<std::string> committed_ GUARDED_BY(mutex_);
  CoordinatorHost host_;
};

// The same three clients work for both, and go on with the longer one when the other is over.
TEST_F(HostTest, TwoRunsAtOnce_EachIsWhatItIsAlone) {
  const auto brief = Alone("brief", 12), longer = Alone("longer", 17);
  Serve("brief", 12);
  Serve("longer", 17);
  std::vector<std::thread> clients;
  for (const std::string& name : Names(kHosted)) {
    clients.emplace_back([this, name] {
      const PollReply::Over over = Work(name);
      EXPECT_FALSE(over.failed);
      EXPECT_THAT(over.sentence, HasSubstr("the run has finished"));
    });
  }
  EXPECT_OK(host_.WaitForAll());
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Committed("brief"), brief);
  EXPECT_EQ(Committed("longer"), longer);
  // Neither waited for the other's end.
  MutexLock lock(mutex_);
  const auto first = [&](const std::string& line) REQUIRES(mutex_) {
    return std::find_if(committed_.begin(), committed_.end(), [&](const auto& c) { return c.starts_with(line); });
  };
  EXPECT_LT(first("longer 1 "), first("brief 12 "));
}

// A process works for one run at a time. While it trains for long, its word keeps that lease, the other run counts it
// as present and draws it; the lease there lapses, and is taken up again once it has time, under the same name.
TEST_F(HostTest, LongTaskOfOneRun_KeepsItsLeaseAndIsNobodysLoss) {
  std::atomic<int64_t> now_ms = 1'000;
  const auto serve = [&](const std::string& name) {
    CoordinatorOptions options = Options(name, 1, "timed");
    options.scenario.server.lease_seconds = 10;
    options.scenario.server.min_reports = kHosted;  // else two of three would do
    options.now_ms = [&] { return now_ms.load(); };
    std::shared_ptr<Coordinator> run = Value(CreateCoordinator(options, TinyParts(kHostedElements, kHosted)));
    EXPECT_OK(host_.Add(run));
    return run;
  };
  const auto slow = serve("slow"), other = serve("other");
  const std::vector<std::string> names = Names(kHosted);
  const auto send = [&](const std::string& name, const Task& task) {
    const std::vector<float> delta(kHostedElements, 1);
    return Send(host_, name, task.id, MakeUpdate(delta, 5));
  };
  ASSERT_OK(Join(*slow, names));
  ASSERT_OK(Join(*other, names));
  PollRequest busy = AskedBy(names[0]);
  busy.caller.run_id = other->run_id();  // who has worked for one is asked by the others first
  const PollReply given = Value(host_.Poll(busy));
  ASSERT_EQ(given.tasks.size(), 1u);
  const Task task = given.tasks[0];
  ASSERT_EQ(task.run_id, slow->run_id());
  busy.caller.run_id = slow->run_id();
  busy.working_on = {{task.id}};
  busy.want = 0;
  TaskId awaits;  // of the busy client in the other run
  for (const RunStatus::Work& work : other->Standing().work) {
    if (work.client_id == names[0]) awaits = work.task;
  }
  EXPECT_FALSE(awaits.empty()) << "who is busy elsewhere is drawn all the same";
  for (int beat = 0; beat < 40; ++beat) {
    now_ms += 3'000;
    const PollReply said = Value(host_.Poll(busy));
    ASSERT_THAT(said.cancelled, IsEmpty());
    ASSERT_THAT(said.tasks, IsEmpty());
    for (size_t i = 1; i < names.size(); ++i) {
      for (const Task& of : Value(host_.Poll(AskedBy(names[i]))).tasks) EXPECT_OK(send(names[i], of));
    }
  }
  EXPECT_FALSE(slow->over());
  EXPECT_FALSE(other->over());
  EXPECT_EQ(Value(send(names[0], task)).kind, SubmitResult::Kind::kAccepted);
  EXPECT_OK(slow->Wait());
  PollRequest idle = AskedBy(names[0]);
  idle.caller.run_id = slow->run_id();
  const PollReply next = Value(host_.Poll(idle));
  ASSERT_EQ(next.tasks.size(), 1u) << "its run is over, and it goes on with the next";
  EXPECT_EQ(next.tasks[0].id, awaits);
  EXPECT_EQ(Value(send(names[0], next.tasks[0])).kind, SubmitResult::Kind::kAccepted);
  EXPECT_OK(other->Wait());
}

// A run that was stopped may be resumed, so what is in hand for it stays; meanwhile there is work elsewhere.
TEST_F(HostTest, CallerOfAStoppedRun_KeepsItsTaskAndIsGivenWorkOfTheOther) {
  const auto stopped = Serve("stopped", 3);
  const auto other = Serve("other", 5);
  ASSERT_OK(Join(host_, Names(kHosted)));
  ASSERT_OK(Join(*other, Names(kHosted)));
  PollRequest request = AskedBy("client-00000");
  request.caller.run_id = stopped->run_id();
  request.working_on = {{"its-task"}};
  request.want = 0;
  stopped->Stop();
  EXPECT_THAT(stopped->Wait(), StatusIs(absl::StatusCode::kCancelled));

  ASSERT_OK_AND_ASSIGN(const PollReply busy, host_.Poll(request));
  EXPECT_FALSE(busy.over);
  EXPECT_THAT(busy.cancelled, IsEmpty());
  request.working_on.clear();
  request.want = 1;
  ASSERT_OK_AND_ASSIGN(const PollReply idle, host_.Poll(request));
  ASSERT_EQ(idle.tasks.size(), 1u);
  EXPECT_EQ(idle.tasks[0].run_id, other->run_id());
}

TEST_F(HostTest, FinishedRun_CancelsWhatIsInHandForIt) {
  const auto brief = Serve("brief", 1);
  std::vector<std::thread> clients;
  const auto other = Serve("other", 2);
  for (const std::string& name : Names(kHosted)) clients.emplace_back([this, name] { Work(name); });
  EXPECT_OK(brief->Wait());
  PollRequest request = AskedBy("client-00000");
  request.caller.run_id = brief->run_id();
  request.working_on = {{"brief-task"}};
  request.want = 0;
  const auto reply = host_.Poll(request);
  ASSERT_OK(reply);
  if (!reply->over) {  // else the other has finished too meanwhile
    EXPECT_THAT(reply->cancelled, ElementsAre("brief-task"));
  }
  EXPECT_OK(host_.WaitForAll());
  for (std::thread& client : clients) client.join();
}

// A client that has not the data of one run works for the other; who has neither is told why.
TEST_F(HostTest, ClientThatOneRunRefuses_WorksForTheOther) {
  RunParts speech = TinyParts(kHostedElements, kHosted);
  speech.dataset = "speech";
  Serve("speech", 2, std::move(speech));
  const auto digits = Serve("digits", 2);
  ASSERT_OK(Join(host_, Names(kHosted)));
  ASSERT_OK_AND_ASSIGN(const PollReply reply, host_.Poll(AskedBy("client-00001")));
  ASSERT_EQ(reply.tasks.size(), 1u);
  EXPECT_EQ(reply.tasks[0].run_id, digits->run_id());
  EXPECT_THAT(host_.Poll(AskedBy("nobody", 0)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'speech'")));
  host_.Stop();
  EXPECT_THAT(host_.WaitForAll(), StatusIs(absl::StatusCode::kCancelled));
}

// An aggregator is not told that all is over while there may be more: of its run it hears once how the last tasks
// ended, and then that it is not here.
TEST_F(HostTest, Aggregator_ServesOneRunAfterTheOther) {
  for (const bool outlives : {false, true}) {
    SCOPED_TRACE(outlives);
    CoordinatorHost host(outlives);
    const auto run = [&](const std::string& name) {
      auto made = CreateCoordinator(Options(name + (outlives ? "-outlived" : ""), 2, "aggregator"),
                                    TinyParts(kHostedElements, kHosted));
      EXPECT_OK(made);
      std::shared_ptr<Coordinator> shared = *std::move(made);
      EXPECT_OK(host.Add(shared));
      return shared;
    };
    PollRequest request{As("north"), {.version = "test"}};
    request.serves.kind = Serves::Kind::kNames;
    request.want = kHosted;
    for (const std::string& name : Names(kHosted)) request.serves.names.push_back({name, {{"train", 5}}});
    const auto first = run("first"), second = run("second");
    ASSERT_OK_AND_ASSIGN(const PollReply given, host.Poll(request));
    ASSERT_EQ(given.tasks.size(), static_cast<size_t>(kHosted));
    EXPECT_EQ(given.tasks[0].run_id, first->run_id());
    first->Stop();
    EXPECT_THAT(first->Wait(), StatusIs(absl::StatusCode::kCancelled));

    request.caller.run_id = first->run_id();
    EXPECT_THAT(host.Poll(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("is over; ask for the next")));
    request.caller.run_id.clear();
    ASSERT_OK_AND_ASSIGN(const PollReply next, host.Poll(request));
    ASSERT_FALSE(next.tasks.empty());
    EXPECT_EQ(next.tasks[0].run_id, second->run_id());
    second->Stop();
    EXPECT_THAT(second->Wait(), StatusIs(absl::StatusCode::kCancelled));

    request.caller.run_id = second->run_id();
    if (outlives) {
      EXPECT_THAT(host.Poll(request), StatusIs(absl::StatusCode::kNotFound));
      request.caller.run_id.clear();
      ASSERT_OK_AND_ASSIGN(const PollReply waiting, host.Poll(request));
      EXPECT_FALSE(waiting.over);
      EXPECT_THAT(waiting.awaited.sentence, HasSubstr("the next run"));
    } else {
      EXPECT_OK(host.Poll(request));
    }
  }
}

TEST_F(HostTest, NamesThatAreNotHere_AreRefused) {
  EXPECT_THAT(host_.Poll(AskedBy("client-00000")), StatusIs(absl::StatusCode::kUnavailable));
  const auto run = Serve("only", 1);
  EXPECT_THAT(host_.Add(run), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(run->run_id())));
  PollRequest request = AskedBy("client-00000");
  request.caller.run_id = "another";
  EXPECT_THAT(host_.Poll(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("run 'another' is not served here")));
  EXPECT_THAT(host_.Fail(request.caller, {.task = "t"}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(host_.Fetch(As("client-00000"), {}, 0), StatusIs(absl::StatusCode::kNotFound));
  host_.Stop();
}

}  // namespace
}  // namespace rivulet
