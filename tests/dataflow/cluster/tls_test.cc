// Tasks under mutual TLS: sessions between certificates of the role `task`, and callers that are refused.
#include "certificates/watched_identity.h"
#include "dataflow/cluster/task_server.h"
#include "dataflow/session/session.h"
#include "tests/certificates/test_authority.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/random_graph.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

class TaskTls : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    for (const char* const id : {"a", "b"}) ASSERT_OK(Issue(std::string("task/") + id, id, {"localhost", "127.0.0.1"}));
    ASSERT_OK(Issue("client/c", "c"));
    const std::vector<int>& ports = reserved_.ports();
    const std::string cluster = fmt::format("worker=127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    target_ = fmt::format("grpc://127.0.0.1:{}", ports[0]);
    for (int task = 0; task < 2; ++task) {
      TaskServerOptions options;
      ASSERT_OK_AND_ASSIGN(options.cluster, ClusterSpec::Parse(cluster));
      options.job = "worker";
      options.task = task;
      ASSERT_OK_AND_ASSIGN(options.credentials, CredentialsOf(task == 0 ? "a" : "b"));
      ASSERT_OK_AND_ASSIGN(servers_[task], TaskServer::Start(std::move(options)));
    }
    Scope scope(graph_);
    const Output x = scope.WithDevice("/job:worker/task:0").Placeholder("x", DType::kFloat32, Shape{1});
    scope.WithDevice("/job:worker/task:1").Op("Neg", {x}, {}, "y");
    ASSERT_OK(scope.status());
  }
  StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsOf(const std::string& folder) {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<WatchedIdentity> identity,
                             WatchedIdentity::Open(fs_, clock_, Path(folder), {.tell = [](const std::string&) {}}));
    return TlsCredentials(std::move(identity), [](const std::string&) {});
  }
  // y of x = 1, by a session of its own.
  StatusOr<float> NegatedOne(std::shared_ptr<const TransportCredentials> credentials) {
    SessionConfig config;
    config.target = target_;
    config.target_credentials = std::move(credentials);
    RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(graph_.Clone(), config));
    RIVULET_ASSIGN_OR_RETURN(const auto values, session->Run({{"x", Tensor::Of<float>({1}, {1})}}, {"y"}));
    return values[0].flat<float>()[0];
  }

  const ReservedPorts reserved_{2};
  std::string target_;
  std::unique_ptr<TaskServer> servers_[2];
  Graph graph_;
};

TEST_F(TaskTls, CertificatesOfTasks_RunSessions) {
  ASSERT_OK_AND_ASSIGN(const auto credentials, CredentialsOf("b"));
  ASSERT_OK_AND_ASSIGN(const float y, NegatedOne(credentials));
  EXPECT_EQ(y, -1);
}

TEST_F(TaskTls, CertificateOfAnotherRole_MayNotRunGraphs) {
  ASSERT_OK_AND_ASSIGN(const auto credentials, CredentialsOf("c"));
  EXPECT_THAT(NegatedOne(credentials), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'client/c'")));
  EXPECT_EQ(servers_[0]->worker().sessions(), 0u);
}

}  // namespace
}  // namespace rivulet::testing
