#include "setup/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/data/example.h"
#include "engine/models/layer_list.h"
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::MemoryDataset;

std::shared_ptr<const Plan> LogisticPlan() {
  Scenario scenario;
  scenario.run.name = "evaluate";
  scenario.model.preset = "logistic_regression";
  scenario.data.partition.clients = 2;
  scenario.server.clients_per_round = 1;
  StatusOr<ModelDef> model = Preset("logistic_regression");
  EXPECT_OK(model);
  StatusOr<std::string> bytes = BuildPlan(scenario, *model);
  EXPECT_OK(bytes);
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(*bytes);
  EXPECT_OK(plan);
  return *plan;
}

// A model that answers `answer` whatever it sees: all weights zero, one bias 2.
Model Stubborn(const Plan& plan, size_t answer) {
  Model model(plan.layout());
  for (const Slice& slice : plan.layout()->slices()) {
    if (slice.elements == 10) model.tensor(slice).flat<float>()[answer] = 2;
  }
  return model;
}

TEST(CentralEvaluatorTest, MeansAreOverExamples_AlsoWithASmallLastBatch) {
  const auto plan = LogisticPlan();
  std::vector<std::string> records = DigitRecords(20);  // labels 0 … 9, 0 … 9
  records.push_back(DigitExample(std::string(784, 'x'), 3));
  const auto test = std::make_shared<MemoryDataset>(records);
  for (const int64_t batch_size : {1, 2, 20, 21, 1000}) {
    const auto evaluator = CentralEvaluator::Create(plan, test, {.batch_size = batch_size, .threads = 2});
    ASSERT_OK(evaluator);
    const auto result = (*evaluator)->Evaluate(Stubborn(*plan, 3));
    ASSERT_OK(result);
    EXPECT_EQ(result->size(), 2u);
    EXPECT_EQ(result->at("test/accuracy"), Measure::Rate(3, 21)) << batch_size;
    const double log_sum = std::log(9 + std::exp(2.0));
    EXPECT_EQ(result->at("test/loss").total, std::nullopt);
    EXPECT_NEAR(result->at("test/loss").value, log_sum - 2 * 3.0 / 21, 1e-5) << batch_size;
  }
}

// A mean of float32 means would be 0.227999998927116.
TEST(CentralEvaluatorTest, Rate_IsWhatItsCountsSay) {
  const auto plan = LogisticPlan();
  std::vector<std::string> records;
  for (int i = 0; i < 1000; ++i) records.push_back(DigitExample(std::string(784, 'x'), i < 228 ? 3 : 4));
  const auto evaluator = CentralEvaluator::Create(plan, std::make_shared<MemoryDataset>(std::move(records)),
                                                  {.batch_size = 70, .threads = 2});
  ASSERT_OK(evaluator);
  const auto result = (*evaluator)->Evaluate(Stubborn(*plan, 3));
  ASSERT_OK(result);
  EXPECT_EQ(result->at("test/accuracy"), Measure::Rate(228, 1000));
  EXPECT_EQ(fmt::format("{}", result->at("test/accuracy").value), "0.228");
}

// Targets (1, 10), (2, 10), (3, 40), each predicted as (2, 20): squares 1 + 0 + 1 and 100 + 100 + 400; the targets'
// variances are 2/3 and 200.
TEST(CentralEvaluatorTest, Numbers_AreExplainedAsFarAsTheirVarianceIs) {
  Scenario scenario;
  scenario.run.name = "evaluate";
  scenario.data.partition.clients = 2;
  scenario.server.clients_per_round = 1;
  ClassifierOptions options;
  options.input = {1};
  options.encoding = FeatureEncoding::kFloat;
  options.target = TargetKind::kNumbers;
  options.loss = "mae";
  const std::vector<LayerSpec> layers = {{{"type", std::string("dense")}, {"units", int64_t{2}}}};
  ASSERT_OK_AND_ASSIGN(const ModelDef definition, ModelFromLayers(options, layers));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BuildPlan(scenario, definition));
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan::Open(bytes));
  std::vector<std::string> records;
  for (const auto& [first, second] : {std::pair(1.0f, 10.0f), std::pair(2.0f, 10.0f), std::pair(3.0f, 40.0f)}) {
    const float feature = 0, target[] = {first, second};
    records.push_back(ExampleBuilder().Floats("image", {&feature, 1}).Floats("label", target).Serialize());
  }
  Model model(plan->layout());
  for (const Slice& slice : plan->layout()->slices()) {
    if (!slice.name.ends_with("bias")) continue;
    model.tensor(slice).flat<float>()[0] = 2;
    model.tensor(slice).flat<float>()[1] = 20;
  }
  for (const int64_t batch_size : {1, 2, 3}) {
    const auto evaluator =
        CentralEvaluator::Create(plan, std::make_shared<MemoryDataset>(records), {.batch_size = batch_size});
    ASSERT_OK(evaluator);
    const auto result = (*evaluator)->Evaluate(model);
    ASSERT_OK(result);
    EXPECT_NEAR(result->at("test/loss").value, 42.0 / 6, 1e-5);
    EXPECT_NEAR(result->at("test/mse").value, 602.0 / 6, 1e-4);
    EXPECT_NEAR(result->at("test/r2").value, 1 - (602.0 / 6) / ((2.0 / 3 + 200) / 2), 1e-6);
  }
  const auto alike =
      CentralEvaluator::Create(plan, std::make_shared<MemoryDataset>(std::vector{records[0], records[0]}));
  ASSERT_OK(alike);
  EXPECT_FALSE((*alike)->Evaluate(model)->contains("test/r2"));  // there is nothing to be explained
}

TEST(CentralEvaluatorTest, AnyNumberOfThreads_SameBits) {
  const auto plan = LogisticPlan();
  const auto test = std::make_shared<MemoryDataset>(DigitRecords(157));
  Model model(plan->layout());
  int n = 0;
  for (const Slice& slice : plan->layout()->slices()) {
    for (float& value : model.tensor(slice).flat<float>()) value = static_cast<float>(n++ * 31 % 97 - 48) * 0.01f;
  }
  std::map<std::string, Measure> first;
  for (const int threads : {1, 2, 5, 64}) {
    const auto evaluator = CentralEvaluator::Create(plan, test, {.batch_size = 10, .threads = threads});
    ASSERT_OK(evaluator);
    for (int again = 0; again < 3; ++again) {
      const auto result = (*evaluator)->Evaluate(model);
      ASSERT_OK(result);
      if (first.empty()) first = *result;
      EXPECT_EQ(*result, first) << threads;
    }
  }
}

// What is kept is what is decoded: with room for all, for a few rows, for none.
TEST(CentralEvaluatorTest, KeptExamples_ChangeNoBit) {
  const auto plan = LogisticPlan();
  const auto test = std::make_shared<MemoryDataset>(DigitRecords(157));
  Model model(plan->layout());
  int n = 0;
  for (const Slice& slice : plan->layout()->slices()) {
    for (float& value : model.tensor(slice).flat<float>()) value = static_cast<float>(n++ * 31 % 97 - 48) * 0.01f;
  }
  constexpr int64_t kRow = 784 + 8;  // as it is kept
  std::map<std::string, Measure> first;
  for (const int64_t budget : {int64_t{0}, kRow - 1, 17 * kRow, 157 * kRow, int64_t{1} << 30}) {
    for (const int threads : {1, 3}) {
      const auto rows = std::make_shared<RowBudget>(budget);
      const auto evaluator = CentralEvaluator::Create(plan, test, {.batch_size = 10, .threads = threads, .rows = rows});
      ASSERT_OK(evaluator);
      for (int again = 0; again < 3; ++again) {
        test->reads = 0;
        const auto result = (*evaluator)->Evaluate(model);
        ASSERT_OK(result);
        if (first.empty()) first = *result;
        EXPECT_EQ(*result, first) << budget << " bytes, " << threads << " threads";
        if (again > 0 && threads == 1) {
          EXPECT_EQ(test->reads, 157 - std::min<int64_t>(157, budget / kRow)) << budget;
        }
      }
    }
  }
}

TEST(CentralEvaluatorTest, EmptyTestSet_IsRefused) {
  const auto evaluator =
      CentralEvaluator::Create(LogisticPlan(), std::make_shared<MemoryDataset>(std::vector<std::string>{}));
  EXPECT_THAT(evaluator, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.test has no examples")));
}

TEST(CentralEvaluatorTest, FirstRecordOfAnotherSize_IsRefusedAtOnce) {
  const auto test = std::make_shared<MemoryDataset>(std::vector<std::string>{DigitExample("x", 1)});
  const auto evaluator = CentralEvaluator::Create(LogisticPlan(), test);
  EXPECT_THAT(Message(evaluator.status()), HasSubstr("record 0 at byte 0"));
}

TEST(CentralEvaluatorTest, BadRecord_IsTheFirstOneWhateverTheThreads) {
  const auto plan = LogisticPlan();
  std::vector<std::string> records = DigitRecords(100);
  records[37] = DigitExample(std::string(784, 'x'), 77);
  const auto evaluator =
      CentralEvaluator::Create(plan, std::make_shared<MemoryDataset>(records), {.batch_size = 10, .threads = 4});
  ASSERT_OK(evaluator);
  const auto result = (*evaluator)->Evaluate(Stubborn(*plan, 1));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("record 37 at byte")));
}

}  // namespace
}  // namespace rivulet
