// Profiles requested from outside, here by threads of the same process.
#include "engine/profile/profile_server.h"

#include <thread>

#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Runner> Negation() {
  Graph graph;
  const Scope scope(graph);
  const Output y = scope.Op("Neg", {scope.Placeholder("x", DType::kFloat32, Shape{16})}, {}, "neg");
  EXPECT_OK(scope.status());
  return Runner::Create(graph, {{{"x", F32({16})}}, {y.name()}, {}, {}}).value();
}

// Steps until told to stop, and how many of them were watched.
struct Loop {
  explicit Loop(StepMonitor& monitor) {
    thread = std::thread([this, &monitor] {
      const auto runner = Negation();
      const std::vector<Tensor> feeds = {Tensor(DType::kFloat32, Shape{16})};
      Bindings bindings = runner->bindings(feeds);
      while (!stop) {
        MonitoredRun watched(&monitor, bindings);
        watched_runs += bindings.observer != nullptr;
        EXPECT_OK(runner->instance->Run(bindings));
        if (watched_runs != 3) watched.Done();  // one watched run ends badly
      }
    });
  }
  ~Loop() {
    stop = true;
    thread.join();
  }
  std::atomic<bool> stop = false;
  std::atomic<int> watched_runs = 0;
  std::thread thread;
};

TEST(ProfileServer, Request_GetsItsStepsAndNoMoreAreWatched) {
  ASSERT_OK_AND_ASSIGN(const auto server, ProfileServer::Start("a test"));
  StepMonitor monitor({server.get()});
  Loop loop(monitor);
  ASSERT_OK_AND_ASSIGN(const Profile profile, ProfileOfProcess(getpid(), 5));
  EXPECT_EQ(profile.steps, 5);
  EXPECT_EQ(profile.title, "a test");
  EXPECT_EQ(profile.threads, 1);
  ASSERT_EQ(profile.instructions.size(), 2u);  // and the fetch
  EXPECT_EQ(profile.instructions[0].op, "Neg");
  EXPECT_EQ(profile.instructions[0].calls, 5);
  EXPECT_EQ(loop.watched_runs, 6);  // the one that ended badly is made up for
  ASSERT_OK_AND_ASSIGN(const Profile again, ProfileOfProcess(getpid(), 2));
  EXPECT_EQ(again.steps, 2);
}

TEST(ProfileServer, EndBeforeAStep_IsTold) {
  ASSERT_OK_AND_ASSIGN(auto server, ProfileServer::Start("a test"));
  Status status;
  std::thread asker([&] { status = ProfileOfProcess(getpid(), 5).status(); });
  while (!server->Wants()) std::this_thread::yield();  // claims one of the steps, and never runs it
  server.reset();
  asker.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended before a step was done")));
}

TEST(ProfileServer, TwoInOneProcess_SecondIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto server, ProfileServer::Start("a test"));
  EXPECT_THAT(ProfileServer::Start("another"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("profiled")));
}

TEST(ProfileServer, NobodyListens_IsNotFound) {
  EXPECT_THAT(ProfileOfProcess(getpid(), 1), StatusIs(absl::StatusCode::kNotFound, HasSubstr("does not listen")));
  EXPECT_THAT(ProfileOfProcess(0x7FFFFFF0, 1), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no process")));
}

TEST(ProfileServer, TooManySteps_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto server, ProfileServer::Start("a test"));
  EXPECT_THAT(ProfileOfProcess(getpid(), kMostProfiledSteps + 1),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("1 to 1000000 steps")));
}

}  // namespace
}  // namespace rivulet::testing
