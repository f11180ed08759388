// Variables over the tasks of a job. The devices in turn are those of TensorFlow 2.21's replica_device_setter.
#include "dataflow/placement/parameter_servers.h"

#include "engine/gradients/gradients.h"
#include "engine/graph/device_name.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParameterServersTest : public ::testing::Test {
 protected:
  void Variables(const std::vector<Shape>& shapes) {
    for (size_t i = 0; i < shapes.size(); ++i)
      reads_.push_back(Variable(scope_, fmt::format("v{}", i), shapes[i], Zeros()));
    ASSERT_OK(scope_.status());
  }
  std::vector<int> TasksOfVariables(const ParameterServers& servers) {
    const StatusOr<Graph> placed = OnParameterServers(graph_, servers);
    EXPECT_OK(placed);
    std::vector<int> tasks;
    if (!placed.ok()) return tasks;
    for (size_t i = 0; i < reads_.size(); ++i)
      tasks.push_back(*ParseDeviceName(placed->Find(fmt::format("v{}", i))->device())->task);
    return tasks;
  }
  Graph graph_;
  Scope scope_{graph_};
  std::vector<Output> reads_;
};

const std::vector<Shape> kShapes = {{3, 4}, {50}, {2, 2}, {}, {10, 10}, {7}, {49}, {100}, {1}, {64}};

TEST_F(ParameterServersTest, Variables_GoToTheTasksInTurnOrToTheSmallest) {
  Variables(kShapes);
  EXPECT_THAT(TasksOfVariables({.tasks = 3}), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0));
  // Loads in elements before each: 0 0 0 | 12 0 0 | 12 50 0 | 12 50 4 | 12 50 5 | 12 50 105 | 19 50 105 | 68 50 105 |
  // 68 150 105 | 69 150 105.
  EXPECT_THAT(TasksOfVariables({.tasks = 3, .by_size = true}), ElementsAre(0, 1, 2, 2, 2, 0, 0, 1, 0, 0));
}

TEST_F(ParameterServersTest, UsersOfAVariable_GoWithIt_AndTheRestToTheWorker) {
  Variables({{2}, {2}});
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  const Output sum = scope_.Op("AddV2", {scope_.Op("Mul", {x, reads_[0]}), reads_[1]}, {}, "sum");
  const Output loss = scope_.Op("Sum", {sum, scope_.Const(Tensor::Of<int32_t>({1}, {0}))});
  const std::vector<Output> handles = {graph_.Find("v0")->output(), graph_.Find("v1")->output()};
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph_, loss, handles));
  OptimizerSpec momentum;
  momentum.kind = "momentum";
  ASSERT_OK(ApplyGradients(scope_, momentum, handles, gradients));
  ASSERT_OK_AND_ASSIGN(const Graph placed, OnParameterServers(graph_, {.tasks = 2, .worker = "/job:worker/task:3"}));
  EXPECT_EQ(placed.nodes().size(), graph_.nodes().size());
  EXPECT_EQ(placed.Find("sum")->device(), "/job:worker/task:3");
  EXPECT_EQ(placed.Find("x")->device(), "/job:worker/task:3");
  // A slot and its variable are one: their update needs both.
  int updates = 0;
  for (const auto& node : placed.nodes()) {
    for (const Output& input : node->inputs()) {
      if (input.dtype() != DType::kResource) continue;
      EXPECT_EQ(node->device(), input.node->device()) << node->name();
    }
    updates += node->type() == "ResourceApplyMomentum" || node->type() == "ResourceApplyKerasMomentum";
  }
  EXPECT_EQ(updates, 2);
  EXPECT_EQ(placed.Find("v0")->device(), "/job:ps/task:0");
  EXPECT_EQ(placed.Find("v1")->device(), "/job:ps/task:1");
}

TEST_F(ParameterServersTest, StatedParts_Win) {
  scope_ = scope_.WithDevice("/job:chief/task:0");
  Variables({{2}});
  scope_ = Scope(graph_).WithDevice("/device:GPU:1");
  reads_.push_back(Variable(scope_, "v1", {2}, Zeros()));
  reads_.push_back(Variable(Scope(graph_), "v2", {2}, Zeros()));
  scope_.Op("Neg", {reads_[1]}, {}, "negated");
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(const Graph placed, OnParameterServers(graph_, {.tasks = 2}));
  EXPECT_EQ(placed.Find("v0")->device(), "/job:chief/task:0");
  EXPECT_EQ(placed.Find("v1")->device(), "/job:ps/task:0/device:GPU:1");
  EXPECT_EQ(placed.Find("v2")->device(), "/job:ps/task:1");
  EXPECT_EQ(placed.Find("negated")->device(), "/job:worker/device:GPU:1");
}

TEST_F(ParameterServersTest, NoTasksOrUnknownSizes_AreRefused) {
  EXPECT_THAT(OnParameterServers(graph_, {.tasks = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give 1 or more")));
  EXPECT_THAT(OnParameterServers(graph_, {.worker = "job"}), StatusIs(absl::StatusCode::kInvalidArgument));
  scope_.AddNode("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{kUnknownDim}}}, "open");
  ASSERT_OK(scope_.status());
  EXPECT_THAT(OnParameterServers(graph_, {.by_size = true}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'open' has the shape [?]")));
  EXPECT_OK(OnParameterServers(graph_, {}));
}

}  // namespace
}  // namespace rivulet
