// Clients' measurements of a version agree with a central evaluation of the same data.
#include <gmock/gmock.h>

#include <cmath>

#include "client/training/pass_programs.h"
#include "federated/aggregation/aggregation.h"
#include "federated/random/streams.h"
#include "setup/evaluator.h"
#include "tests/client/training/local_plan.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;

std::shared_ptr<const Plan> MeasuringPlan(int64_t batch_size, const std::string& precision = "float32") {
  Scenario scenario = LocalScenario();
  scenario.client.precision = precision;
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.batch_size = batch_size;
  return testing::LocalPlan(scenario);
}

Task MeasuringTask(const std::string& client_id) {
  Task task;
  task.id = "run-e3-a1-" + client_id + "-0";
  task.kind = TaskKind::kEvaluate;
  task.base_version = 3;
  task.stream_key = ClientKey(42, client_id);
  return task;
}

// Client k of `shares` has so many of the records, one after another; the sums of what they declare.
struct MeasuredSums {
  std::map<std::string, double> sums;
  std::map<std::string, double> last;  // declared by the last client
};
MeasuredSums MeasureShares(const std::shared_ptr<const Plan>& plan, const std::vector<std::string>& records,
                           const std::vector<uint32_t>& shares) {
  MeasuredSums measured;
  const auto decoder = ExampleDecoder::Create(plan->features());
  auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
  auto aggregation = Aggregation::Create(plan->aggregation(TaskKind::kEvaluate));
  EXPECT_OK(aggregation);
  const auto base = PatternModel(*plan);
  const auto data = std::make_shared<MemoryDataset>(records);
  uint32_t begin = 0;
  for (const uint32_t share : shares) {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < share; ++i) indices.push_back(begin++);
    const DatasetExamples examples(data, indices, *decoder);
    const Task task = MeasuringTask(fmt::format("client-{}", begin));
    const LaneTask lane{&task, "a", base.get(), &examples};
    auto results = (*trainer)->Train({&lane, 1});
    EXPECT_OK(results);
    const LocalResult& result = results->at(0);
    EXPECT_OK(result.status);
    EXPECT_TRUE(result.parts.empty());
    const auto weights = WeightsOf((*aggregation)->spec(), result.declared, {});
    EXPECT_OK(weights);
    EXPECT_OK((*aggregation)->Fold({task.id, task.base_version, {}, result.declared}, *weights));
    measured.last = result.declared;
  }
  auto input = std::move(**aggregation).Finish();
  EXPECT_OK(input);
  measured.sums = input->scalars;
  return measured;
}

std::map<std::string, Measure> Centrally(const std::shared_ptr<const Plan>& plan, std::vector<std::string> records,
                                         int64_t batch_size) {
  const auto evaluator = CentralEvaluator::Create(plan, std::make_shared<MemoryDataset>(std::move(records)),
                                                  {.batch_size = batch_size, .threads = 2});
  EXPECT_OK(evaluator);
  auto measures = (*evaluator)->Evaluate(*PatternModel(*plan));
  EXPECT_OK(measures);
  return *measures;
}

// Example by example nothing is rounded but the losses themselves, which are the same, and the sums.
TEST(FederatedEvaluation, WeightedMean_IsCentralEvaluationOfTheUnion) {
  const auto records = DigitRecords(157);
  const auto plan = MeasuringPlan(1);
  const MeasuredSums measured = MeasureShares(plan, records, {1, 30, 7, 100, 19});
  const auto central = Centrally(plan, records, 1);
  EXPECT_EQ(measured.sums.at("examples"), 157);
  const double loss = central.at("test/loss").value;
  EXPECT_NEAR(measured.sums.at("evaluate/loss") / 157, loss, 1e-12 * loss);
  EXPECT_EQ(measured.sums.at("evaluate/accuracy/right"), static_cast<double>(*central.at("test/accuracy").right));
  EXPECT_EQ(measured.sums.at("evaluate/accuracy/total"), 157);
}

// Batches of another size round the mean of each otherwise, in float32; what is counted stays.
TEST(FederatedEvaluation, AnyBatchSize_CountsTheSame) {
  const auto records = DigitRecords(157);
  const auto central = Centrally(MeasuringPlan(1), records, 1);
  for (const int64_t batch_size : {10, 64, 1000}) {
    const MeasuredSums measured = MeasureShares(MeasuringPlan(batch_size), records, {57, 100});
    EXPECT_NEAR(measured.sums.at("evaluate/loss") / 157, central.at("test/loss").value, 1e-6) << batch_size;
    EXPECT_EQ(measured.sums.at("evaluate/accuracy/right"), static_cast<double>(*central.at("test/accuracy").right));
    EXPECT_EQ(measured.sums.at("evaluate/accuracy/total"), 157) << batch_size;
  }
}

TEST(FederatedEvaluation, SixteenBitProducts_AreMeasuredToo) {
  const auto records = DigitRecords(40);
  const auto plan = MeasuringPlan(10, "bfloat16");
  const MeasuredSums measured = MeasureShares(plan, records, {40});
  EXPECT_EQ(measured.sums.at("evaluate/accuracy/right"),
            static_cast<double>(*Centrally(plan, records, 10).at("test/accuracy").right));
}

TEST(FederatedEvaluation, ClientDeclares_WhatThePlanNames) {
  const MeasuredSums measured = MeasureShares(MeasuringPlan(10), DigitRecords(25), {25});
  std::vector<std::string> names;
  for (const auto& [name, value] : measured.last) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("evaluate/accuracy/right", "evaluate/accuracy/total", "evaluate/loss",
                                            "examples", "steps"));
  EXPECT_EQ(measured.last.at("steps"), 3);
}

// A plan of a run that does not ask for it is what it was.
TEST(FederatedEvaluation, NotAskedFor_ThePlanHasNone) {
  const auto plan = testing::LocalPlan();
  EXPECT_EQ(plan->program(TaskKind::kEvaluate), nullptr);
  EXPECT_TRUE(plan->aggregation(TaskKind::kEvaluate).scalars.empty());
  EXPECT_EQ(MeasuringPlan(10)->aggregation().digest(), plan->aggregation().digest());
}

// A metric that is no mean of truths is a mean over examples; one that is called like what every client declares is no
// trouble.
TEST(FederatedEvaluation, MetricThatIsNoRate_IsAMean) {
  StatusOr<ModelDef> model = Preset("logistic_regression");
  ASSERT_OK(model);
  model->metrics = {{"steps", model->eval_loss}};
  Scenario scenario = LocalScenario();
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.batch_size = 10;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BuildPlan(scenario, *model));
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan::Open(bytes));
  const MeasuredSums measured = MeasureShares(plan, DigitRecords(25), {20, 5});
  EXPECT_EQ(measured.sums.at("evaluate/steps"), measured.sums.at("evaluate/loss"));
}

// Fitted for two epochs: the figures of the model that two epochs of training make, to the bit, and those of the
// version beside them.
TEST(FineTuning, IsMeasuredAsTheModelThatTrainingMakes) {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 2;
  scenario.client.batch_size = 5;
  scenario.client.shuffle = false;
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.batch_size = 10;
  const auto plain = testing::LocalPlan(scenario);
  scenario.evaluation.fine_tune_epochs = 2;
  const auto tuning = testing::LocalPlan(scenario);
  const auto base = PatternModel(*plain);
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(23));
  const auto run = [&](const std::shared_ptr<const Plan>& plan, const Model& from, TaskKind kind) {
    const auto decoder = ExampleDecoder::Create(plan->features());
    const DatasetExamples examples(data, std::nullopt, *decoder);
    const auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
    Task task = MeasuringTask("a");
    task.kind = kind;
    const LaneTask lane{&task, "a", &from, &examples};
    auto results = (*trainer)->Train({&lane, 1});
    EXPECT_OK(results);
    EXPECT_OK(results->at(0).status);
    std::vector<float> delta;
    for (const PartView& part : results->at(0).parts) {
      for (const FloatRun& values : part.runs) {
        for (int64_t i = 0; i < values.count; ++i) delta.push_back(ValueOf(values, i));
      }
    }
    return std::pair(results->at(0).declared, delta);
  };
  const auto [tuned, nothing] = run(tuning, *base, TaskKind::kEvaluate);
  EXPECT_TRUE(nothing.empty()) << "nothing of it is sent";
  EXPECT_FALSE(tuning->measures_state());
  const Scalars measured = run(plain, *base, TaskKind::kEvaluate).first;
  EXPECT_EQ(tuned.at("evaluate/loss"), measured.at("evaluate/loss"));
  const auto [trained, delta] = run(plain, *base, TaskKind::kTrain);
  EXPECT_EQ(tuned.at("personal/train_loss"), trained.at("train_loss"));
  EXPECT_LT(tuned.at("personal/loss"), tuned.at("evaluate/loss"));
  auto after = std::make_shared<Model>(plain->layout());
  size_t next = 0;
  for (const Slice& slice : plain->layout()->slices()) {
    const auto from = base->tensor(slice).flat<float>(), to = after->tensor(slice).flat<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] + delta[next++];
  }
  EXPECT_NEAR(tuned.at("personal/loss"), run(plain, *after, TaskKind::kEvaluate).first.at("evaluate/loss"), 1e-6);
}

TEST(FineTuning, WhereClientsHaveTheirOwn_IsRefusedByItsKey) {
  Scenario scenario = LocalScenario();
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.fine_tune_epochs = 1;
  scenario.algorithm.name = "ditto";
  EXPECT_THAT(testing::ErrorOf(ComposePlan(scenario, *Preset(scenario.model.preset))),
              ::testing::HasSubstr("evaluation.fine_tune_epochs to 0"));
}

}  // namespace
}  // namespace rivulet
