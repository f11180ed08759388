// Threads: pools, alarms, cancellation, the cache that compiles once, and many sessions and threads on one graph.
#include <atomic>
#include <cmath>
#include <thread>

#include "dataflow/session/alarm.h"
#include "dataflow/session/once_cache.h"
#include "dataflow/session/session.h"
#include "dataflow/session/thread_pool.h"
#include "engine/base/mutex.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/dataflow/session/gates.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::OpenGate;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A door that threads wait at.
class Latch {
 public:
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (!open_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ = false;
};

TEST(ThreadPoolTest, HigherPriority_ComesBeforeWhatWaits) {
  std::vector<int> order;
  {
    ThreadPool pool("one", 1);
    Latch busy;
    pool.Schedule([&] { busy.Wait(); });
    for (const int priority : {0, 2, 1, 2}) pool.Schedule([&order, priority] { order.push_back(priority); }, priority);
    busy.Open();
  }  // runs the rest
  EXPECT_THAT(order, ElementsAre(2, 2, 1, 0));
}

TEST(ThreadPoolTest, LastOwnerOnItsOwnThread_DoesNotHang) {
  Latch gone;
  auto pool = std::make_shared<ThreadPool>("own", 2);
  ThreadPool& raw = *pool;
  raw.Schedule([owner = std::move(pool), &gone]() mutable {
    owner.reset();
    gone.Open();
  });
  gone.Wait();
}

TEST(AlarmTest, Rings_UnlessItIsGone) {
  Latch rung;
  std::atomic<int> others{0};
  {
    const Alarm never(std::chrono::steady_clock::now() + std::chrono::hours(1), [&] { ++others; });
    const Alarm now(std::chrono::steady_clock::now(), [&] { rung.Open(); });
    rung.Wait();
  }
  EXPECT_EQ(others, 0);
}

TEST(CancellationTest, TellsWhoAsked_Once) {
  const CancellationToken token = CancellationToken::Create();
  std::vector<int> told;
  const uint64_t first = token.OnCancel([&] { told.push_back(1); });
  token.OnCancel([&] { told.push_back(2); });
  EXPECT_TRUE(token.Forget(first));
  EXPECT_FALSE(token.cancelled());
  token.Cancel();
  token.Cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_THAT(told, ElementsAre(2));
  EXPECT_EQ(token.OnCancel([&] { told.push_back(3); }), 0u);
  EXPECT_EQ(CancellationToken().OnCancel([] {}), 0u);
}

TEST(CancellationTest, Forget_WaitsForACallbackThatRuns) {
  const CancellationToken token = CancellationToken::Create();
  Latch running, go_on;
  std::atomic<bool> done{false};
  const uint64_t id = token.OnCancel([&] {
    running.Open();
    go_on.Wait();
    done = true;
  });
  std::thread canceller([&] { token.Cancel(); });
  running.Wait();
  std::thread helper([&] { go_on.Open(); });
  EXPECT_FALSE(token.Forget(id));
  EXPECT_TRUE(done);
  canceller.join();
  helper.join();
}

// Property: two keys are made at once, one key once, and an error is not kept.
TEST(OnceCacheTest, DifferentKeysAreMadeAtOnce_OneKeyOnce) {
  OnceCache<int> cache(8);
  Latch a_began, b_began;
  std::atomic<int> made{0};
  const auto make = [&](Latch& mine, Latch& other) -> StatusOr<std::shared_ptr<int>> {
    mine.Open();
    other.Wait();  // would hang if the cache were locked
    return std::make_shared<int>(++made);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      EXPECT_OK(i % 2 == 0 ? cache.Get("a", [&] { return make(a_began, b_began); })
                           : cache.Get("b", [&] { return make(b_began, a_began); }));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 2);
  using Made = StatusOr<std::shared_ptr<int>>;
  EXPECT_THAT(cache.Get("c", []() -> Made { return Internal("no"); }), StatusIs(absl::StatusCode::kInternal, "no"));
  EXPECT_EQ(**cache.Get("c", []() -> Made { return std::make_shared<int>(7); }), 7);
}

TEST(OnceCacheTest, BeyondTheCapacity_DropsWhatWasNotAskedForTheLongest) {
  OnceCache<int> cache(2);
  std::vector<std::string> made;
  const auto get = [&](const std::string& key) {
    EXPECT_OK(cache.Get(key, [&]() -> StatusOr<std::shared_ptr<int>> {
      made.push_back(key);
      return std::make_shared<int>(0);
    }));
  };
  for (const char* key : {"a", "b", "a", "c", "a", "b"}) get(key);
  EXPECT_THAT(made, ElementsAre("a", "b", "c", "b"));
  EXPECT_EQ(cache.size(), 2u);
}

// y = sum over (x + w), behind a gate that is open, and a target that grows w by 1.
Graph StressGraph(const std::string& gate) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  const Output w = Variable(scope, "w", Shape{}, Constant(0));
  const Output sum =
      scope.Op("Sum", {scope.Op("AddV2", {x, w}), scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}))}, {}, "sum");
  scope.Op("Neg", {scope.Op("TestGate", {sum}, {{"gate", gate}}, "gate")}, {}, "y");
  scope.AddNode("AssignAddVariableOp", {w.node->input(0), scope.Const(Tensor::Scalar(1.0f), "one")}, {}, "grow");
  EXPECT_OK(scope.status());
  return graph;
}

// Property: whatever threads, sessions, shapes, extensions, time-outs and evictions come together, each run sees w as
// it was between two whole updates, and no update is lost.
TEST(StressTest, ManyThreadsAndSessions_LoseNothing) {
  OpenGate("stress");
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>();
  config.max_programs = 3;  // fewer than the shapes: evictions all the time
  config.inter_op_threads = 2;
  const Graph graph = StressGraph("stress");
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph.Clone(), config));
    sessions.push_back(std::move(session));
  }
  ASSERT_OK(sessions[0]->Run({}, {}, {"init"}));
  constexpr int kThreads = 6, kRuns = 40;
  std::atomic<int> failed{0}, grown{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      Session& session = *sessions[static_cast<size_t>(thread % 2)];
      for (int i = 0; i < kRuns; ++i) {
        const int size = 1 + (thread + i) % 5;
        const Tensor x(DType::kFloat32, Shape{size});
        if (i % 4 == 0) {
          if (session.Run({}, {}, {"grow"}).ok()) ++grown;
        } else if (i % 4 == 1) {
          const CancellationToken token = CancellationToken::Create();
          std::thread canceller([&] { token.Cancel(); });
          const Status status = session.Run({{"x", x}}, {"y"}, {}, token).status();
          canceller.join();
          if (!status.ok() && !absl::IsCancelled(status)) ++failed;
        } else if (i % 4 == 2 && thread == 0) {
          Graph more;
          const Scope scope(more);
          scope.Const(Tensor::Scalar(1.0f), fmt::format("extra_{}", i));
          if (!session.Extend(more).ok()) ++failed;
        } else {
          const auto values = session.Run({{"x", x}}, {"y", "sum"});
          if (!values.ok()) {
            ++failed;
            continue;
          }
          const float y = (*values)[0].flat<float>()[0], sum = (*values)[1].flat<float>()[0];
          if (y != -sum || std::fmod(sum, static_cast<float>(size)) != 0) ++failed;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(grown, kThreads * kRuns / 4);
  EXPECT_EQ(sessions[1]->GetVariable("w")->flat<float>()[0], static_cast<float>(grown));
  EXPECT_LE(sessions[0]->programs(), 3u);
}

TEST(StressTest, CloseWhileOthersRun_EndsThemAll) {
  SessionConfig config;
  config.inter_op_threads = 2;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(StressGraph("stress that stays closed"), config));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const Status status = session->Run({{"x", Tensor(DType::kFloat32, Shape{2})}}, {"y"}).status();
      cancelled += absl::IsCancelled(status);
    });
  testing::AwaitGate("stress that stays closed", 4);
  session->Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled, 4);
}

}  // namespace
}  // namespace rivulet
