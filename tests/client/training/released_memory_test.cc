// Large memory that a trainer releases between tasks: results stay valid as long as promised, and no bit depends on the
// release.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "client/training/pass_programs.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"
#include "tests/testing/sanitized.h"

namespace rivulet {
namespace {

constexpr int64_t kHidden = 2'450'000;                                  // 68.6 MB with four pixels and three classes
constexpr int64_t kModelKilobytes = 7 * kHidden * 4 / 1024 - 4 * 1024;  // less what pages and counters round

// As FourPixels, with a wide layer between: nearly all of a step's memory is the model's.
ModelDef WideModel() {
  ModelDef model;
  Scope scope(model.graph);
  const Output image = scope.Placeholder("image", DType::kFloat32, {-1, 4});
  const Output label = scope.Placeholder("label", DType::kInt64, {-1});
  std::vector<Node*> assigned;
  const auto variable = [&](const char* name, Shape shape) {
    const Output handle = scope.Op(
        "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", shape}, {"shared_name", std::string(name)}}, name);
    assigned.push_back(scope.AddNode("AssignVariableOp", {handle, scope.Const(Tensor(DType::kFloat32, shape))},
                                     {{"dtype", DType::kFloat32}}));
    return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  };
  const Output w = variable("w", {4, kHidden}), v = variable("v", {kHidden, 3});
  scope.WithControl(assigned).AddNode("NoOp", {}, {}, "init");
  const Output logits = scope.Op("MatMul", {scope.Op("MatMul", {image, w}), v}, {}, "logits");
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  EXPECT_OK(scope.status());
  model.input = {"image", {DType::kFloat32, {-1, 4}}, FeatureEncoding::kUint8, 1.0 / 255.0};
  model.label = {"label", {DType::kInt64, {-1}}, FeatureEncoding::kInt64, 1, 3};
  model.classes = 3;
  model.train_loss = model.eval_loss = "loss";
  auto variables = VariablesOf(model.graph);
  EXPECT_OK(variables);
  model.variables = *std::move(variables);
  return model;
}

int64_t AnonymousKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes;
  }
  return -1;
}

std::vector<float> DeltaOf(const LocalResult& result) {
  std::vector<float> delta;
  for (const FloatRun& run : result.parts.at(0).runs)
    for (int64_t i = 0; i < run.count; ++i) delta.push_back(ValueOf(run, i));
  return delta;
}

TEST(ReleasedMemory, OfStepsAndOfResults_ChangesNoBit) {
  Scenario scenario = testing::LocalScenario();
  scenario.client.batch_size = 2;
  scenario.client.optimizer.learning_rate = 0.001;
  ASSERT_OK_AND_ASSIGN(std::string bytes, BuildPlan(scenario, WideModel()));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Plan> plan, Plan::Open(std::move(bytes)));
  const auto base = testing::PatternModel(*plan);
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(0, 4)),
                                 std::nullopt, decoder);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-a-0";
  task.stream_key = ClientKey(42, "a");
  const LaneTask lane{&task, "a", base.get(), &examples};

  ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> first, trainer->Train({&lane, 1}));
  ASSERT_OK(first[0].status);
  const int64_t trained = AnonymousKilobytes();
  trainer->ReleaseSteps();
  const int64_t without_gradients = AnonymousKilobytes();
  const std::vector<float> delta = DeltaOf(first[0]);
  EXPECT_TRUE(std::ranges::any_of(delta, [](float value) { return value != 0; }));
  const int64_t read = AnonymousKilobytes();
  trainer->ReleaseResults();
  const int64_t without_results = AnonymousKilobytes();
  if (!testing::kSanitized) {
    EXPECT_GT(trained - without_gradients, kModelKilobytes);
    EXPECT_GT(read - without_results, kModelKilobytes);
  }

  ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> second, trainer->Train({&lane, 1}));
  ASSERT_OK(second[0].status);
  EXPECT_TRUE(DeltaOf(second[0]) == delta);
  EXPECT_EQ(second[0].train_loss, first[0].train_loss);
}

// Clearing its pages for every task would cost more than they are worth.
TEST(ReleasedMemory, SmallModel_KeepsItsMemory) {
  const auto plan = testing::LocalPlan();
  const auto base = testing::PatternModel(*plan);
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::DigitRecords(20)), std::nullopt,
                                 decoder);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-a-0";
  task.stream_key = ClientKey(42, "a");
  const LaneTask lane{&task, "a", base.get(), &examples};
  ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  ASSERT_OK(results[0].status);
  const std::vector<float> delta = DeltaOf(results[0]);
  trainer->ReleaseSteps();
  trainer->ReleaseResults();
  EXPECT_EQ(DeltaOf(results[0]), delta);
}

}  // namespace
}  // namespace rivulet
