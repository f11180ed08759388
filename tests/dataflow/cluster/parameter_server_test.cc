// Training with a parameter server: asynchronous workers, and synchronous ones with a backup, reach one worker's loss.
#include <thread>

#include "dataflow/cluster/task_server.h"
#include "dataflow/distributed/sync_replicas.h"
#include "dataflow/placement/parameter_servers.h"
#include "dataflow/session/session.h"
#include "engine/base/join.h"
#include "engine/gradients/gradients.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ReservedPorts;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kRows = 192, kBatch = 32, kFeatures = 8, kClasses = 3;
constexpr int kSteps = 200;

// Points with the class of a linear rule, every fifth with another one: the best loss is far from 0.
struct Points {
  Points() {
    uint32_t state = 1;
    const auto draw = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    };
    for (int64_t row = 0; row < kRows; ++row) {
      float score[kClasses] = {};
      for (int64_t i = 0; i < kFeatures; ++i) {
        const float value = draw();
        x.flat<float>()[static_cast<size_t>(row * kFeatures + i)] = value;
        score[i % kClasses] += value;
      }
      const int64_t best = std::max_element(score, score + kClasses) - score;
      label.flat<int64_t>()[static_cast<size_t>(row)] = row % 5 == 0 ? (best + 1) % kClasses : best;
    }
  }
  Session::Feeds All() const { return {{"x", x}, {"label", label}}; }
  Session::Feeds Batch(int index) const {
    const auto first = static_cast<size_t>(index % (kRows / kBatch) * kBatch);
    const std::span<const float> rows = x.flat<float>().subspan(first * kFeatures, kBatch * kFeatures);
    return {{"x", Tensor::Of<float>({kBatch, kFeatures}, rows)},
            {"label", Tensor::Of<int64_t>({kBatch}, label.flat<int64_t>().subspan(first, kBatch))}};
  }
  Tensor x{DType::kFloat32, Shape{kRows, kFeatures}};
  Tensor label{DType::kInt64, Shape{kRows}};
};

struct Training {
  Graph graph;
  std::string step;  // of one worker that waits for no other
  SyncReplicasNodes sync;
};

StatusOr<Training> Build(const std::string& worker, SyncReplicas replicas = {}) {
  Training training;
  const Scope scope(training.graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, kFeatures});
  const Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  const Output kernel = Variable(scope, "kernel", {kFeatures, kClasses}, Zeros());
  const Output bias = Variable(scope, "bias", {kClasses}, Zeros());
  VariableOptions counter;
  counter.dtype = DType::kInt64;
  Variable(scope, "global_step", {}, Zeros(), counter);
  const Output scores = scope.Op("BiasAdd", {scope.Op("MatMul", {x, kernel}), bias});
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {scores, label});
  const Output loss = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  RIVULET_RETURN_IF_ERROR(scope.status());
  const auto handle = [&](const char* name) { return training.graph.Find(name)->output(); };
  const std::vector<Output> variables = {handle("kernel"), handle("bias")};
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(training.graph, loss, variables));
  const OptimizerSpec sgd = {.kind = "sgd", .learning_rate = 0.5};
  RIVULET_ASSIGN_OR_RETURN(const Node* step, ApplyGradients(scope, sgd, variables, gradients));
  training.step = step->name();
  RIVULET_ASSIGN_OR_RETURN(training.sync,
                           ApplyGradientsInSync(scope, sgd, variables, gradients, handle("global_step"), replicas));
  if (!worker.empty()) {
    RIVULET_ASSIGN_OR_RETURN(training.graph, OnParameterServers(training.graph, {.tasks = 2, .worker = worker}));
  }
  return training;
}

float LossOf(Session& session, const Points& points) {
  const auto values = session.Run(points.All(), {"loss"});
  EXPECT_OK(values);
  return values.ok() ? (*values)[0].flat<float>()[0] : 0;
}

float LossOfOneWorker(const Points& points) {
  auto training = Build("");
  EXPECT_OK(training);
  auto session = Session::Create(std::move(training->graph));
  EXPECT_OK((*session)->Run({}, {}, {"init"}));
  for (int i = 0; i < kSteps; ++i) EXPECT_OK((*session)->Run(points.Batch(i), {}, {training->step}));
  return LossOf(**session, points);
}

class ParameterServer : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> addresses;
    for (const int port : reserved_.ports()) addresses.push_back(fmt::format("127.0.0.1:{}", port));
    const std::vector<std::string> ps(addresses.begin(), addresses.begin() + 2),
        worker(addresses.begin() + 2, addresses.end());
    ASSERT_OK_AND_ASSIGN(const ClusterSpec cluster,
                         ClusterSpec::Parse(fmt::format("ps={};worker={}", Join(ps, ","), Join(worker, ","))));
    for (const ClusterTask& task : cluster.tasks()) {
      TaskServerOptions options;
      options.cluster = cluster;
      options.job = task.job;
      options.task = task.index;
      options.credentials = InsecureCredentials(false);
      ASSERT_OK_AND_ASSIGN(servers_.emplace_back(), TaskServer::Start(std::move(options)));
      if (task.job == "worker") targets_.push_back("grpc://" + task.address.ToString());
    }
  }
  // A worker's session at its own task, which needs no other worker.
  StatusOr<std::unique_ptr<Session>> Open(int worker, Graph graph) const {
    SessionConfig config;
    config.target = targets_[static_cast<size_t>(worker)];
    config.placement.emplace().device_filters = {"/job:ps", fmt::format("/job:worker/task:{}", worker)};
    return Session::Create(std::move(graph), config);
  }
  struct Worker {
    Training training;
    std::unique_ptr<Session> session;
  };
  // Worker 0 is the chief.
  void Start(int count, SyncReplicas replicas = {}) {
    for (int i = 0; i < count; ++i) {
      ASSERT_OK_AND_ASSIGN(Training training, Build(fmt::format("/job:worker/task:{}", i), replicas));
      ASSERT_OK_AND_ASSIGN(auto session, Open(i, std::move(training.graph)));
      workers_.push_back({std::move(training), std::move(session)});
    }
    ASSERT_OK(workers_[0].session->Run({}, {}, {"init"}));
  }
  int64_t GlobalStep(Worker& worker) const {
    const auto values = worker.session->Run({}, {"global_step/Read"});
    EXPECT_OK(values);
    return values.ok() ? (*values)[0].flat<int64_t>()[0] : kSteps;
  }

  const ReservedPorts reserved_{5};
  const Points points_;
  std::vector<std::unique_ptr<TaskServer>> servers_;
  std::vector<std::string> targets_;
  std::vector<Worker> workers_;
};

TEST_F(ParameterServer, TwoAsynchronousWorkers_ReachTheLossOfOne) {
  Start(2);
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w)
    threads.emplace_back([&, w] {
      Worker& worker = workers_[static_cast<size_t>(w)];
      for (int i = w; i < kSteps; i += 2) ASSERT_OK(worker.session->Run(points_.Batch(i), {}, {worker.training.step}));
    });
  for (std::thread& thread : threads) thread.join();
  const float one = LossOfOneWorker(points_);
  EXPECT_GT(one, 0.3f);
  EXPECT_LT(one, 0.9f);  // it was log 3
  EXPECT_NEAR(LossOf(*workers_[0].session, points_), one, 0.02 * one);
}

// The third worker hands its gradients over when ten steps have passed since it took its token: no step waits for it,
// and nothing that it computes is added.
TEST_F(ParameterServer, TwoOfThreeSynchronousWorkers_DoNotWaitForTheThird) {
  Start(3, {.to_aggregate = 2, .replicas = 3});
  const SyncReplicasNodes nodes = workers_[0].training.sync;
  ASSERT_OK(workers_[0].session->Run({}, {}, {nodes.start}));
  std::vector<std::thread> threads;
  std::atomic<int> late{0};
  Mutex mutex;
  CondVar changed;
  int made = 0;  // steps; guarded by the mutex
  for (size_t w = 0; w < 3; ++w)
    threads.emplace_back([&, w] {
      Worker& worker = workers_[w];
      for (int i = 2 * static_cast<int>(w);; ++i) {  // each goes through all batches
        const auto taken = worker.session->Run({}, {nodes.tokens[w], nodes.global_steps[w]});
        if (absl::IsOutOfRange(taken.status())) return;  // closed
        ASSERT_OK(taken);
        const int64_t token = (*taken)[0].flat<int64_t>()[0];
        if (token < (*taken)[1].flat<int64_t>()[0]) continue;
        if (token >= kSteps) return;
        if (w == 2) {
          MutexLock lock(mutex);
          while (made < std::min<int64_t>(token + 10, kSteps)) changed.Wait(mutex);
          ++late;
        }
        Session::Feeds feeds = points_.Batch(i);
        feeds.emplace_back(nodes.local_step, Tensor::Scalar<int64_t>(token));
        ASSERT_OK(worker.session->Run(feeds, {"loss"}, {nodes.apply}));
      }
    });
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_OK(workers_[0].session->Run({}, {}, {nodes.update}));
    MutexLock lock(mutex);
    ++made;
    changed.NotifyAll();
  }
  EXPECT_OK(workers_[0].session->Run({}, {}, {nodes.close}));
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(late.load(), 0);
  EXPECT_EQ(GlobalStep(workers_[1]), kSteps);
  const float one = LossOfOneWorker(points_);
  EXPECT_NEAR(LossOf(*workers_[1].session, points_), one, 0.02 * one);
}

// One token of a step for each worker: a fast worker gets no second one, and those of an absent one do not pile up.
TEST(SyncReplicasTest, WorkersTakeTokensOfTheirOwn) {
  const Points points;
  ASSERT_OK_AND_ASSIGN(Training training, Build("", {.to_aggregate = 1, .replicas = 2}));
  const SyncReplicasNodes nodes = training.sync;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(training.graph)));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK(session->Run({}, {}, {nodes.start}));
  const auto take_in_vain = [&](size_t worker) {
    RunOptions options;
    options.timeout = std::chrono::milliseconds(20);
    return session->RunWith(options, {}, {nodes.tokens[worker]}).status();
  };
  const auto make_step = [&](int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto taken, session->Run({}, {nodes.tokens[0], nodes.global_steps[0]}));
    EXPECT_EQ(taken[0].flat<int64_t>()[0], step);
    EXPECT_EQ(taken[1].flat<int64_t>()[0], step);
    EXPECT_THAT(take_in_vain(0), StatusIs(absl::StatusCode::kDeadlineExceeded));
    Session::Feeds feeds = points.Batch(0);
    feeds.emplace_back(nodes.local_step, Tensor::Scalar<int64_t>(step));
    ASSERT_OK(session->Run(feeds, {}, {nodes.apply}));
    ASSERT_OK(session->Run({}, {}, {nodes.update}));
  };
  for (int64_t step = 0; step < 4; ++step) make_step(step);
  ASSERT_OK_AND_ASSIGN(auto late, session->Run({}, {nodes.tokens[1], nodes.global_steps[1]}));
  EXPECT_EQ(late[0].flat<int64_t>()[0], 0);
  EXPECT_EQ(late[1].flat<int64_t>()[0], 4);
  EXPECT_THAT(take_in_vain(1), StatusIs(absl::StatusCode::kDeadlineExceeded));
  make_step(4);
  ASSERT_OK_AND_ASSIGN(late, session->Run({}, {nodes.tokens[1], nodes.global_steps[1]}));
  EXPECT_EQ(late[0].flat<int64_t>()[0], 5);
  ASSERT_OK(session->Run({}, {}, {nodes.close}));
  EXPECT_EQ((*session->Run({}, {nodes.tokens[0]}))[0].flat<int64_t>()[0], 5);  // what is there is given out
  EXPECT_THAT(session->Run({}, {nodes.tokens[0]}), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(SyncReplicasTest, StepsThatCannotBe_AreRefused) {
  EXPECT_THAT(Build("", {.to_aggregate = 3, .replicas = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 of 2 workers")));
  EXPECT_THAT(Build("", {.to_aggregate = 0, .replicas = 2}), StatusIs(absl::StatusCode::kInvalidArgument));
  Graph graph;
  const Scope scope(graph);
  const Output v = Variable(scope, "v", {}, Zeros());
  EXPECT_THAT(ApplyGradientsInSync(scope, {}, {}, {}, v, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an int64 scalar variable")));
}

}  // namespace
}  // namespace rivulet
