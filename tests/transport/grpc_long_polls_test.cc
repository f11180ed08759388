// Long polls over a network: few calls, and no delay.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "engine/base/mutex.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/transport/shutdown_barrier.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

// Has tasks for the names that a test says, once each.
class OfferingCoordinator : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex_);
    ++polls;
    PollReply reply{.wait_ms = 5000, .awaited = {"the next selection"}};
    if (offered_.erase(request.caller.name) > 0) reply.tasks.push_back({.id = "task"});
    if (over_) reply.over = PollReply::Over{.sentence = "finished"};
    return reply;
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }
  void SetListener(NewsListener* listener) override {
    MutexLock lock(mutex_);
    listener_ = listener;
  }

  void Offer(const std::string& name) {
    MutexLock lock(mutex_);
    offered_.insert(name);
    if (listener_ != nullptr) listener_->OnNews(name);
  }
  void End() {
    MutexLock lock(mutex_);
    over_ = true;
    if (listener_ != nullptr) listener_->OnNews("");
  }
  void WaitForPolls(int count) const {
    const auto give_up = Steady::now() + std::chrono::seconds(60);
    while (polls < count && Steady::now() < give_up) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_GE(polls, count);
  }
  std::atomic<int> polls = 0;

 private:
  Mutex mutex_;
  NewsListener* listener_ GUARDED_BY(mutex_) = nullptr;
  std::set<std::string> offered_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
};

class GrpcHeldPollsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = GrpcServer::Start(attendance_,
                                {.listen = {.host = "127.0.0.1", .port = 0}, .credentials = InsecureCredentials(false)})
                  .value();
    client_ =
        GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  }
  static PollRequest Waiting(const std::string& name, int64_t hold_ms) {
    return {.caller = {.name = name}, .hold_ms = hold_ms, .told = true};
  }
  OfferingCoordinator api_;
  ShutdownBarrier attendance_{api_};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
};

TEST_F(GrpcHeldPollsTest, NotToldYet_IsAnsweredAtOnceAndMayComeAgainAtOnce) {
  const auto reply = client_->Poll({.caller = {.name = "a"}, .hold_ms = 60'000});
  ASSERT_OK(reply);
  EXPECT_EQ(reply->awaited.sentence, "the next selection");
  EXPECT_EQ(reply->wait_ms, 1);
  EXPECT_EQ(client_->Poll({.caller = {.name = "a"}})->wait_ms, 5000) << "not held: as the coordinator says";
}

TEST_F(GrpcHeldPollsTest, NothingForAllItsTime_IsAnsweredThen) {
  const auto begin = Steady::now();
  const auto reply = client_->Poll(Waiting("a", 50));
  ASSERT_OK(reply);
  EXPECT_TRUE(reply->tasks.empty());
  EXPECT_GE(Steady::now() - begin, milliseconds(50));
  EXPECT_EQ(api_.polls, 2);
}

TEST_F(GrpcHeldPollsTest, Offer_ReachesItsClientAtOnce) {
  auto fastest = Steady::duration::max();
  for (int i = 0; i < 10; ++i) {
    Steady::time_point arrived;
    api_.polls = 0;
    std::thread client([&] {
      const auto reply = client_->Poll(Waiting("a", 60'000));
      arrived = Steady::now();
      ASSERT_OK(reply);
      EXPECT_EQ(reply->tasks.size(), 1u);
    });
    api_.WaitForPolls(1);
    const auto offered = Steady::now();
    api_.Offer("a");
    client.join();
    fastest = std::min(fastest, arrived - offered);
  }
  EXPECT_LT(fastest, std::chrono::seconds(5));  // of a hold of 60 s
}

TEST_F(GrpcHeldPollsTest, EndOfTheRun_ReachesAll) {
  std::atomic<int> told = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back([&, i] {
      const auto reply = client_->Poll(Waiting(fmt::format("{}", i), 60'000));
      if (reply.ok() && reply->over) ++told;
    });
  }
  api_.WaitForPolls(5);
  api_.End();
  EXPECT_TRUE(attendance_.WaitUntilAllKnow(std::chrono::seconds(20)));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(told, 5);
}

TEST_F(GrpcHeldPollsTest, ServerStops_AnswersThoseItHolds) {
  std::atomic<bool> answered = false;
  std::thread client([&] { answered = client_->Poll(Waiting("a", 60'000)).ok(); });
  api_.WaitForPolls(1);
  server_->Stop(std::chrono::seconds(10));
  client.join();
  EXPECT_TRUE(answered);
}

TEST_F(GrpcHeldPollsTest, ClientHangsUp_ItsPollEndsWithTheNextNewsAndTakesNoTask) {
  std::thread client([&] { EXPECT_FALSE(client_->Poll(Waiting("a", 60'000)).ok()); });
  api_.WaitForPolls(1);
  client_->Cancel();
  client.join();
  std::this_thread::sleep_for(milliseconds(300));  // until the server has heard of it
  api_.Offer("a");
  std::this_thread::sleep_for(milliseconds(50));
  const auto again =
      GrpcClient::Create({.coordinator = server_->address(), .credentials = InsecureCredentials(false)}).value();
  EXPECT_EQ(again->Poll(Waiting("a", 60'000))->tasks.size(), 1u);
  api_.End();
  server_->Stop(std::chrono::seconds(10));
}

// Each connection is one client's, which waits; all of them are one caller of polls in ten of its held ones.
TEST_F(GrpcHeldPollsTest, ManyIdleConnections_CallSeldomAndAreInNobodysWay) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const int idle = static_cast<int>(std::min<rlim_t>(2000, (files.rlim_cur - 200) / 2));
  struct Connection {
    std::unique_ptr<rpc::Coordinator::Stub> stub;
    grpc::ClientContext context;
    rpc::PollRequestProto request;
    rpc::PollReplyProto reply;
  };
  std::vector<std::unique_ptr<Connection>> connections;
  std::atomic<int> ended = 0;
  for (int i = 0; i < idle; ++i) {
    Connection& each = *connections.emplace_back(std::make_unique<Connection>());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    each.stub = rpc::Coordinator::NewStub(
        grpc::CreateCustomChannel(server_->address().ToString(), grpc::InsecureChannelCredentials(), arguments));
    each.request.mutable_caller()->set_name(fmt::format("idle-{}", i));
    each.request.set_hold_ms(60'000);
    each.request.set_told(true);
    each.stub->async()->Poll(&each.context, &each.request, &each.reply, [&](const grpc::Status&) { ++ended; });
  }
  api_.WaitForPolls(idle);
  const int before = api_.polls;
  std::vector<Steady::duration> took;
  for (int i = 0; i < 21; ++i) {
    const auto begin = Steady::now();
    ASSERT_OK(client_->Poll({.caller = {.name = "busy"}}));
    took.push_back(Steady::now() - begin);
    std::this_thread::sleep_for(milliseconds(20));
  }
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[10], std::chrono::seconds(5));
  EXPECT_EQ(api_.polls - before, 21) << "nobody else has called";
  EXPECT_EQ(ended, 0);
  const auto offered = Steady::now();
  api_.Offer("idle-7");
  while (ended == 0 && Steady::now() - offered < std::chrono::seconds(20)) std::this_thread::yield();
  EXPECT_LT(Steady::now() - offered, std::chrono::seconds(20));
  EXPECT_EQ(connections[7]->reply.tasks_size(), 1);
  EXPECT_EQ(api_.polls - before, 22) << "nobody else was asked";
  api_.End();
  const auto give_up = Steady::now() + std::chrono::seconds(60);
  while (ended < idle && Steady::now() < give_up) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ended, idle);
}

}  // namespace
}  // namespace rivulet
