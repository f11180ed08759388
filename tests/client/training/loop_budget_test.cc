// Limits on the cost of a plan's loops on a client.
#include <chrono>
#include <thread>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/graph/function_builder.h"
#include "federated/algorithms/algorithm.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::LocalScenario;
using ::rivulet::testing::PatternModel;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::TrainOne;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Ten black images, which take a while to come.
class Blank final : public ExampleSource {
 public:
  explicit Blank(std::chrono::milliseconds wait = {}) : wait_(wait) {}
  int64_t size() const override { return 10; }
  Status Decode(std::span<const uint32_t>, std::span<const TensorView> feeds) const override {
    std::this_thread::sleep_for(wait_);
    for (const TensorView& feed : feeds) std::memset(feed.data, 0, feed.bytes());
    return {};
  }

 private:
  const std::chrono::milliseconds wait_;
};

// A plan whose loss is multiplied by what a loop of so many steps gives: one.
std::shared_ptr<const Plan> LoopingPlan(int32_t steps) {
  StatusOr<ModelDef> model = Preset("logistic_regression");
  EXPECT_OK(model);
  Scope scope(model->graph);
  const Output limit = scope.Const(Tensor::Scalar(steps));
  const auto counted = WhileLoop(
      scope,
      [&](const Scope& s, auto v) {
        return s.Op("Less", {v[0], limit});
      },
      [](const Scope& s, auto v) {
        return std::vector{s.Op("AddV2", {v[0], s.Const(Tensor::Scalar<int32_t>(1))}), v[1]};
      },
      {scope.Const(Tensor::Scalar<int32_t>(0)), scope.Const(1.0f)}, "counting");
  const Output loss = *model->graph.FindOutput(model->train_loss);
  const Output one = scope.Op("Cast", {scope.Op("Div", {counted[0], counted[0]})}, {{"DstT", DType::kFloat32}});
  model->train_loss = scope.Op("Mul", {loss, one}, {}, "looping_loss").name();
  EXPECT_OK(scope.status());
  StatusOr<std::string> bytes = BuildPlan(LocalScenario(), *model);
  EXPECT_OK(bytes);
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(*bytes);
  EXPECT_OK(plan);
  return *plan;
}

StatusOr<testing::Trained> TrainOnce(const std::shared_ptr<const Plan>& plan, LoopBudget loops = {},
                                     const Blank& examples = Blank()) {
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan), nullptr, loops));
  return TrainOne(*trainer, Task{}, "a", *PatternModel(*plan), examples);
}

TEST(LoopBudgetTest, PlanWithALoop_Trains) {
  ASSERT_OK_AND_ASSIGN(const testing::Trained result, TrainOnce(LoopingPlan(7)));
  EXPECT_EQ(result.steps, 2);
}

TEST(LoopBudgetTest, PlanWhoseLoopGoesOnForever_EndsWithASentence) {
  EXPECT_THAT(TrainOnce(LoopingPlan(INT32_MAX)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("While 'counting'"), HasSubstr("after 1000000 iterations"))));
}

TEST(LoopBudgetTest, LoopThatTakesTooLong_EndsWithASentence) {
  const LoopBudget loops{.max_steps = -1, .max_time = std::chrono::milliseconds(5)};
  EXPECT_THAT(TrainOnce(LoopingPlan(INT32_MAX), loops).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("While 'counting'")));
}

// Two steps, each of whose loops takes microseconds, in a training that takes longer than a loop may.
TEST(LoopBudgetTest, TrainingLongerThanALoopMayTake_Trains) {
  const LoopBudget loops{.max_time = std::chrono::milliseconds(400)};
  ASSERT_OK_AND_ASSIGN(const testing::Trained result,
                       TrainOnce(LoopingPlan(7), loops, Blank(std::chrono::milliseconds(250))));
  EXPECT_EQ(result.steps, 2);
  EXPECT_GT(result.train_seconds, 0.4);
}

}  // namespace
}  // namespace rivulet
