// Sessions whose nodes are on devices, over the emulated back end: the values of the CPU, and where each node is.
#include <cmath>

#include "dataflow/session/session.h"
#include "dataflow/session/session_options.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "proto/graph/config.pb.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kGpu = "/job:localhost/replica:0/task:0/device:GPU:0";

SessionConfig OnGpus(int gpus, bool soft = false) {
  SessionConfig config;
  config.placement = DevicePlacerOptions{.gpus = gpus, .allow_soft_placement = soft};
  config.gpus.backend = &gpu::EmulatedBackend();
  return config;
}

class SessionGpuTest : public ::testing::Test {
 protected:
  ~SessionGpuTest() override { gpu::SetEmulatedSettings({}); }
};

// Softmax regression over 4 features and 3 classes; "train" is a step of gradient descent.
std::string AddRegression(Graph& graph) {
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, 4});
  const Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  const Output w = Variable(scope, "w", Shape{4, 3}, Constant(0.1));
  const Output logits = scope.Op("MatMul", {x, w});
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  const Output loss = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}))}, {}, "loss");
  const Output variable = FindVariable(graph, "w").value();
  const auto gradients = ComputeGradients(graph, loss, std::vector{variable});
  EXPECT_OK(gradients);
  const auto step = ApplyGradients(scope, {.learning_rate = 0.5}, std::vector{variable}, *gradients);
  EXPECT_OK(step);
  EXPECT_OK(scope.status());
  return (*step)->name();
}

Session::Feeds Examples(int64_t count) {
  std::vector<float> x(static_cast<size_t>(4 * count));
  std::vector<int64_t> label(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(3 * i + 1));
  for (size_t i = 0; i < label.size(); ++i) label[i] = static_cast<int64_t>(i % 3);
  return {{"x", Tensor::Of<float>(Shape{count, 4}, x)}, {"label", Tensor::Of<int64_t>(Shape{count}, label)}};
}

TEST_F(SessionGpuTest, TrainingThere_GivesTheCpusValues) {
  std::vector<std::vector<float>> losses, weights;
  for (const int gpus : {0, 1}) {
    Graph graph;
    const std::string train = AddRegression(graph);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph), OnGpus(gpus)));
    const int64_t launches = gpu::CountEmulated().launches;
    ASSERT_OK(session->Run({}, {}, {"init"}));
    losses.emplace_back();
    for (const int64_t count : {6, 6, 5}) {
      ASSERT_OK_AND_ASSIGN(const auto values, session->Run(Examples(count), {"loss"}, {train}));
      losses.back().push_back(Values(values[0])[0]);
    }
    ASSERT_OK_AND_ASSIGN(const Tensor w, session->GetVariable("w"));
    weights.push_back(Values(w));
    EXPECT_EQ(gpu::CountEmulated().launches > launches, gpus == 1);
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-6) << i;
  for (size_t i = 0; i < weights[0].size(); ++i) EXPECT_NEAR(weights[1][i], weights[0][i], 1e-6) << i;
  EXPECT_LT(losses[1][1], losses[1][0]);
}

// TopKV2 has no kernel for devices.
Graph ThereAndBack(const std::string& device) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{4});
  const Output squared = scope.Op("Square", {x}, {}, "squared");
  const Output top =
      scope.WithDevice(device).Op("TopKV2", {squared, scope.Const(Tensor::Scalar<int32_t>(2))}, {}, "top");
  scope.Op("Neg", {top}, {}, "negated");
  EXPECT_OK(scope.status());
  return graph;
}

TEST_F(SessionGpuTest, OpsWithoutAKernelThere_AreTheCpus_AndValuesTravel) {
  std::vector<std::string> lines;
  SessionConfig config = OnGpus(1);
  config.placement->log_device_placement = [&](const std::string& line) { lines.push_back(line); };
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(ThereAndBack(""), config));
  ASSERT_OK_AND_ASSIGN(const auto values,
                       session->Run({{"x", Tensor::Of<float>(Shape{4}, {1, -3, 2, 0})}}, {"negated"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(-9.0f, -4.0f));
  EXPECT_THAT(lines, Contains(HasSubstr(fmt::format("squared: (Square): {}", kGpu))));
  EXPECT_THAT(lines, Contains(HasSubstr("top: (TopKV2): /job:localhost/replica:0/task:0/device:CPU:0")));
  EXPECT_THAT(lines, Contains(HasSubstr(fmt::format("negated: (Neg): {}", kGpu))));
}

TEST_F(SessionGpuTest, OpThatADeviceCannotRun_IsRefusedThere_UnlessPlacementIsSoft) {
  EXPECT_THAT(Session::Create(ThereAndBack("/device:GPU:0"), OnGpus(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("TopKV2 'top'"), HasSubstr("GPU:0"))));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(ThereAndBack("/device:GPU:0"), OnGpus(1, true)));
  EXPECT_OK(session->Run({{"x", Tensor::Of<float>(Shape{4}, {1, -3, 2, 0})}}, {"negated"}));
}

TEST_F(SessionGpuTest, TwoDevices_EachRunsItsPart) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{3});
  const Output squared = scope.WithDevice("/device:GPU:1").Op("Square", {x}, {}, "squared");
  scope.WithDevice("/device:GPU:0").Op("Neg", {squared}, {}, "negated");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph), OnGpus(2)));
  RunOptions options;
  options.output_partition_graphs = true;
  proto::RunMetadata metadata;
  ASSERT_OK_AND_ASSIGN(const auto values, session->RunWith(options, {{"x", Tensor::Of<float>(Shape{3}, {1, 2, 3})}},
                                                           {"negated"}, {}, &metadata));
  EXPECT_THAT(Values(values[0]), ElementsAre(-1.0f, -4.0f, -9.0f));
  EXPECT_EQ(metadata.partition_graphs_size(), 2);
}

TEST_F(SessionGpuTest, Options_SetUpTheDevices) {
  gpu::SetEmulatedSettings({.devices = 3, .memory_bytes = 10'000});
  proto::ConfigProto options;
  (*options.mutable_device_count())["GPU"] = 1;
  options.mutable_gpu_options()->set_per_process_gpu_memory_fraction(0.5);
  options.mutable_gpu_options()->set_allow_growth(true);
  options.mutable_gpu_options()->set_visible_device_list("2,0");
  ASSERT_OK_AND_ASSIGN(SessionConfig config, SessionConfigFrom(options));
  EXPECT_EQ(config.placement->gpus, 1);
  EXPECT_EQ(config.gpus.visible, (std::vector<int>{2, 0}));
  EXPECT_EQ(config.gpus.options.per_process_gpu_memory_fraction, 0.5);
  EXPECT_TRUE(config.gpus.options.allow_growth);
  config.gpus.backend = &gpu::EmulatedBackend();
  Graph graph;
  Scope scope(graph);
  scope.Op("Square", {scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim})}, {}, "squared");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph), config));
  EXPECT_OK(session->Run({{"x", Tensor(DType::kFloat32, Shape{100})}}, {"squared"}));
  EXPECT_THAT(
      session->Run({{"x", Tensor(DType::kFloat32, Shape{1000})}}, {"squared"}),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("GPU 2: no 4096 bytes of device memory for the arena")));
}

TEST_F(SessionGpuTest, Options_ThatMakeNoSense_AreRefusedByName) {
  const auto refused = [](auto change) {
    proto::ConfigProto options;
    change(options);
    return SessionConfigFrom(options).status();
  };
  EXPECT_THAT(refused([](auto& o) { o.mutable_gpu_options()->set_per_process_gpu_memory_fraction(1.5); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("per_process_gpu_memory_fraction is 1.5")));
  EXPECT_THAT(refused([](auto& o) { o.mutable_gpu_options()->set_visible_device_list("0,x"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("visible_device_list has 'x'")));
}

TEST_F(SessionGpuTest, DevicesThatAreNotThere_AreNamedWithTheReason) {
  EXPECT_THAT(Session::Create(ThereAndBack(""), OnGpus(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("there is no GPU 2 here: there are 2")));
  SessionConfig config = OnGpus(2);
  config.gpus.visible = {0};
  EXPECT_THAT(Session::Create(ThereAndBack(""), config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("visible_device_list names 1")));
  EXPECT_THAT(Session::Create(ThereAndBack(""), OnGpus(65)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Session::Create(ThereAndBack(""), OnGpus(-1)), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SessionGpuTest, FailureOfADevice_EndsTheRun_AndTheNextGoesOn) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(ThereAndBack(""), OnGpus(1)));
  const Session::Feeds feeds = {{"x", Tensor::Of<float>(Shape{4}, {1, -3, 2, 0})}};
  gpu::SetEmulatedSettings({.launches_until_failure = 0});
  EXPECT_THAT(session->Run(feeds, {"negated"}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a failure that was asked for")));
  EXPECT_OK(session->Run(feeds, {"negated"}));
}

}  // namespace
}  // namespace rivulet
