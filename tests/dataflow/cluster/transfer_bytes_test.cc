// Bytes between two tasks, counted by a proxy between them.
#include "dataflow/cluster/task_server.h"
#include "dataflow/session/session.h"
#include "tests/dataflow/cluster/counting_proxy.h"
#include "tests/dataflow/cluster/task_process.h"

namespace rivulet {
namespace {

using ::rivulet::testing::CountingProxy;
using ::rivulet::testing::ReservedPorts;

// Each task reaches the other one through a proxy.
class CountedTasks : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto real = [&](size_t task) { return fmt::format("127.0.0.1:{}", reserved_.ports()[task]); };
    const std::string clusters[] = {fmt::format("worker={},{}", real(0), proxies_[1].address()),
                                    fmt::format("worker={},{}", proxies_[0].address(), real(1))};
    for (int task = 0; task < 2; ++task) {
      TaskServerOptions options;
      ASSERT_OK_AND_ASSIGN(options.cluster, ClusterSpec::Parse(clusters[task]));
      options.job = "worker";
      options.task = task;
      options.credentials = InsecureCredentials(false);
      ASSERT_OK_AND_ASSIGN(servers_[task], TaskServer::Start(std::move(options)));
    }
    target_ = "grpc://" + real(0);
    // x goes to task 1, and its negative comes back.
    const auto on = [&](int task) { return scope_.WithDevice(fmt::format("/job:worker/task:{}", task)); };
    const Output x = on(0).Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
    on(0).Op("Mul", {on(1).Op("Neg", {x}), x}, {}, "y");
    ASSERT_OK(scope_.status());
  }
  StatusOr<std::unique_ptr<Session>> Open(bool bfloat16) const {
    SessionConfig config;
    config.target = target_;
    config.placement.emplace().enable_bfloat16_sendrecv = bfloat16;
    return Session::Create(graph_.Clone(), config);
  }
  size_t bytes() const { return proxies_[0].bytes() + proxies_[1].bytes(); }

  const ReservedPorts reserved_{2};
  CountingProxy proxies_[2] = {CountingProxy(reserved_.ports()[0]), CountingProxy(reserved_.ports()[1])};
  std::unique_ptr<TaskServer> servers_[2];
  std::string target_;
  Graph graph_;
  Scope scope_{graph_};
};

TEST_F(CountedTasks, Bfloat16Transfers_AreHalfTheBytes) {
  constexpr size_t kElements = size_t{1} << 20;
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 251) + 0x1p-12f;  // bfloat16 has 8 bits
  const Session::Feeds feeds = {{"x", Tensor::Of<float>({static_cast<int64_t>(kElements)}, values)}};
  size_t passed[2] = {};
  for (const bool bfloat16 : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto session, Open(bfloat16));
    ASSERT_OK(session->Run({{"x", Tensor::Of<float>({1}, {1})}}, {"y"}));  // registers the step
    const size_t before = bytes();
    ASSERT_OK_AND_ASSIGN(const auto results, session->Run(feeds, {"y"}));
    passed[bfloat16] = bytes() - before;
    for (const size_t i : {size_t{1}, size_t{7}, kElements - 1}) {
      const float x = values[i], sent = bfloat16 ? static_cast<float>(i % 251) : x;
      EXPECT_EQ(results[0].flat<float>()[i], -sent * x) << i;
    }
  }
  constexpr size_t kTransfers = 2;
  EXPECT_GE(passed[false], kTransfers * kElements * sizeof(float));
  EXPECT_LT(passed[false], kTransfers * kElements * sizeof(float) * 102 / 100);
  EXPECT_GE(passed[true], kTransfers * kElements * sizeof(float) / 2);
  EXPECT_LT(passed[true], kTransfers * kElements * sizeof(float) / 2 * 102 / 100);
}

}  // namespace
}  // namespace rivulet
