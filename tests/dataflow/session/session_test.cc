#include "dataflow/session/session.h"

#include <cmath>
#include <thread>

#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// w = 3 at first; y = x · w; the target `grow` adds x to w.
class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Graph graph;
    const Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
    const Output w = Variable(scope, "w", Shape{2}, Constant(3));
    scope.Op("Mul", {x, w}, {}, "y");
    scope.AddNode("AssignAddVariableOp", {w.node->input(0), x}, {}, "grow");
    scope.Op("RandomUniform", {scope.Const(Tensor::Of<int32_t>(Shape{1}, {4}))}, {{"dtype", DType::kFloat32}}, "draw");
    ASSERT_OK(scope.status());
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(std::move(graph)));
  }
  Session::Feeds X(float a, float b) { return {{"x", Tensor::Of<float>(Shape{2}, {a, b})}}; }
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, VariablesLastFromRunToRun) {
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  ASSERT_OK(session_->Run(X(1, 2), {}, {"grow"}));
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run(X(10, 10), {"y:0", "x"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(40.0f, 50.0f));
  EXPECT_THAT(Values(values[1]), ElementsAre(10.0f, 10.0f));
}

TEST_F(SessionTest, ReadBeforeItsFirstValue_NamesTheVariable) {
  EXPECT_THAT(session_->Run(X(1, 2), {"y"}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("the variable 'w' is read before it has a value")));
  EXPECT_THAT(session_->Run(X(1, 2), {}, {"grow"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'w'")));
  EXPECT_THAT(session_->GetVariable("w"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the variable 'w' has no value yet"));
}

TEST_F(SessionTest, FedTensor_ReplacesWhatComputesIt) {
  ASSERT_OK_AND_ASSIGN(const auto values, session_->Run({{"x", Tensor::Of<float>(Shape{2}, {1.0f, 2.0f})},
                                                         {"w/Read", Tensor::Of<float>(Shape{2}, {5.0f, 6.0f})}},
                                                        {"y"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(5.0f, 12.0f));
}

TEST_F(SessionTest, PlaceholderNotFed_IsNamed) {
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  EXPECT_THAT(session_->Run({}, {"y"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("placeholder 'x' is needed and not fed")));
}

TEST_F(SessionTest, FeedOfAnotherTypeOrShape_IsRefused) {
  EXPECT_THAT(session_->Run({{"x", Tensor(DType::kInt32, Shape{2})}}, {"y"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "'x' is float32[?], but is fed int32[2]"));
  EXPECT_THAT(session_->Run({{"x", Tensor(DType::kFloat32, Shape{2, 2})}}, {"y"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "'x' is float32[?], but is fed float32[2,2]"));
  EXPECT_THAT(session_->Run({{"x", Tensor()}}, {"y"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "the feed of 'x' is no tensor"));
}

TEST_F(SessionTest, ShapesThatClashAtRunTime_NameTheNode) {
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  EXPECT_THAT(session_->Run({{"x", Tensor(DType::kFloat32, Shape{3})}}, {"y"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Mul 'y'")));
}

TEST_F(SessionTest, UnknownNames_NameTheNearest) {
  EXPECT_THAT(session_->Run({}, {}, {"inti"}),
              StatusIs(absl::StatusCode::kNotFound, "the graph has no node 'inti'. Did you mean 'init'?"));
  EXPECT_THAT(session_->Run({{"z", Tensor::Scalar(1.0f)}}, {"y"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'z'")));
  EXPECT_THAT(session_->GetVariable("v"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable 'v'")));
}

TEST_F(SessionTest, NothingToRun_IsRefused) {
  EXPECT_THAT(session_->Run({}, {}), StatusIs(absl::StatusCode::kInvalidArgument, "a run needs a fetch or a target"));
}

TEST_F(SessionTest, SetVariable_OfAnotherShape_IsRefused) {
  ASSERT_OK(session_->SetVariable("w", Tensor::Of<float>(Shape{2}, {1.0f, 2.0f})));
  EXPECT_THAT(
      session_->SetVariable("w", Tensor::Scalar(1.0f)),
      StatusIs(absl::StatusCode::kInvalidArgument, "the variable 'w' is float32[2], and cannot be set to float32[]"));
  EXPECT_THAT(Values(session_->GetVariable("w").value()), ElementsAre(1.0f, 2.0f));
}

TEST_F(SessionTest, Cancelled_SaysSo) {
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  const CancellationToken token = CancellationToken::Create();
  token.Cancel();
  EXPECT_THAT(session_->Run(X(1, 2), {"y"}, {}, token), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SessionTest, RandomDraws_DifferByRunAndRepeatBySeed) {
  ASSERT_OK_AND_ASSIGN(const auto first, session_->Run({}, {"draw"}));
  ASSERT_OK_AND_ASSIGN(const auto second, session_->Run({}, {"draw"}));
  EXPECT_NE(Values(first[0]), Values(second[0]));
  ASSERT_OK_AND_ASSIGN(const auto twin, Session::Create(session_->graph().Clone()));
  ASSERT_OK_AND_ASSIGN(const auto again, twin->Run({}, {"draw"}));
  EXPECT_EQ(Values(first[0]), Values(again[0]));
  ASSERT_OK_AND_ASSIGN(const auto other, Session::Create(session_->graph().Clone(), {.seed = 1}));
  ASSERT_OK_AND_ASSIGN(const auto different, other->Run({}, {"draw"}));
  EXPECT_NE(Values(first[0]), Values(different[0]));
}

// Property: every reader sees w as it was before or after a whole `grow`, never between its two elements.
TEST_F(SessionTest, ReadersBesideAWriter_SeeWholeValues) {
  ASSERT_OK(session_->Run({}, {}, {"init"}));
  std::vector<std::thread> threads;
  std::atomic<int> torn{0}, failed{0};
  for (int reader = 0; reader < 3; ++reader)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto values = session_->Run(X(1, 1), {"y"});
        if (!values.ok()) {
          ++failed;
        } else if ((*values)[0].flat<float>()[0] != (*values)[0].flat<float>()[1]) {
          ++torn;
        }
      }
    });
  threads.emplace_back([&] {
    for (int i = 0; i < 200; ++i)
      if (!session_->Run(X(1, 1), {}, {"grow"}).ok()) ++failed;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(Values(session_->GetVariable("w").value()), ElementsAre(203.0f, 203.0f));
}

// The example of dataflow/README.md.
Status TrainOneStep(const Tensor& x, const Tensor& y, float* value) {
  Graph graph;
  Scope scope(graph);
  Output image = scope.Placeholder("image", DType::kFloat32, {kUnknownDim, 784});
  Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  Output logits = scope.Op("MatMul", {image, Variable(scope, "kernel", {784, 10}, GlorotUniform())});
  Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  Output loss = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(Output kernel, FindVariable(graph, "kernel"));
  RIVULET_ASSIGN_OR_RETURN(auto gradients, ComputeGradients(graph, loss, std::vector{kernel}));
  RIVULET_ASSIGN_OR_RETURN(Node * step, ApplyGradients(scope, {.learning_rate = 0.1}, std::vector{kernel}, gradients));
  std::string train = step->name();
  RIVULET_ASSIGN_OR_RETURN(auto session, Session::Create(std::move(graph)));
  RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {"init"}).status());
  RIVULET_ASSIGN_OR_RETURN(auto values, session->Run({{"image", x}, {"label", y}}, {"loss"}, {train}));
  *value = values[0].flat<float>()[0];
  return absl::OkStatus();
}

TEST(SessionReadmeTest, Example_Runs) {
  float loss = 0;
  // A black image: all logits are 0.
  ASSERT_OK(TrainOneStep(Tensor(DType::kFloat32, Shape{2, 784}), Tensor::Of<int64_t>({2}, {1, 2}), &loss));
  EXPECT_NEAR(loss, std::log(10.0f), 1e-6f);
}

TEST(SessionCreateTest, VariableOfUnknownShape_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{kUnknownDim}}}, "w");
  EXPECT_THAT(Session::Create(std::move(graph)),
              StatusIs(absl::StatusCode::kInvalidArgument, "the variable 'w': the shape [?] is not fully known"));
}

TEST(SessionCreateTest, TwoVariablesOfOneNameThatDiffer_AreRefused) {
  Graph graph;
  const Scope scope(graph);
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("w")}},
           "a");
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{3}}, {"shared_name", std::string("w")}},
           "b");
  EXPECT_THAT(Session::Create(std::move(graph)),
              StatusIs(absl::StatusCode::kInvalidArgument, "the variable 'w' is both float32[2] and float32[3]"));
}

}  // namespace
}  // namespace rivulet
