#include "setup/run_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/base/file_system.h"
#include "engine/data/tfrecord.h"
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::StatusIs;

class RunSetupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/run-setup-{}-{}", ::testing::TempDir(), info->name(), getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    scenario_.run.name = "small";
    scenario_.model.preset = "logistic_regression";
    scenario_.data.train = folder_ + "/train.tfrecord";
    scenario_.data.test = folder_ + "/test.tfrecord";
    scenario_.data.partition.clients = 3;
    scenario_.server.clients_per_round = 2;
    scenario_.evaluation.batch_size = 16;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::string& path, int examples) {
    ASSERT_OK_AND_ASSIGN(const auto writer, RecordWriter::Create(FileSystem::Default(), path));
    for (const std::string& record : DigitRecords(examples)) ASSERT_OK(writer->Append(record));
    ASSERT_OK(writer->Finish());
    ASSERT_OK(writer->Publish());
  }
  void WriteBoth() {
    Write(scenario_.data.train, 31);
    Write(scenario_.data.test, 20);
  }

  std::string folder_;
  Scenario scenario_;
};

TEST_F(RunSetupTest, Scenario_BecomesAllThatARunIsMadeFrom) {
  WriteBoth();
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Evaluator> evaluator;
  {
    RunSetup setup(scenario_);
    EXPECT_EQ(setup.scenario().run.name, "small");
    ASSERT_OK_AND_ASSIGN(const auto data, setup.training_data());
    EXPECT_EQ(data->size(), 31);
    ASSERT_OK_AND_ASSIGN(const auto shares, setup.shares());
    EXPECT_EQ(shares->size(), 3);
    ASSERT_OK_AND_ASSIGN(const auto model, setup.model());
    EXPECT_EQ(model->classes, 10);
    ASSERT_OK_AND_ASSIGN(plan, setup.plan());
    ASSERT_OK_AND_ASSIGN(evaluator, setup.evaluator());
  }
  // What was made outlives the setup.
  EXPECT_EQ(plan->name(), "small");
  ASSERT_OK_AND_ASSIGN(const auto first, InitialModel(*plan, 1));
  ASSERT_OK_AND_ASSIGN(const auto values, evaluator->Evaluate(*first));
  EXPECT_TRUE(values.contains("test/loss"));
}

// Centrally numbers, of clients each count, which the plan has summed as it is.
TEST_F(RunSetupTest, MetricsThatCount_AreInThePlanAndMeasured) {
  WriteBoth();
  scenario_.model.metrics = {"accuracy", "top_3", "f1", "auc"};
  scenario_.evaluation.federated_every = 1;
  RunSetup setup(scenario_);
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  ASSERT_OK_AND_ASSIGN(const auto evaluator, setup.evaluator());
  ASSERT_OK_AND_ASSIGN(const auto first, InitialModel(*plan, 1));
  ASSERT_OK_AND_ASSIGN(const auto values, evaluator->Evaluate(*first));
  std::vector<std::string> names;
  for (const auto& [name, measure] : values) names.push_back(name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"test/accuracy", "test/f1", "test/loss", "test/top_3"}));
  EXPECT_EQ(values.at("test/top_3").total, 20);
  const std::vector<ScalarSpec>& scalars = plan->aggregation(TaskKind::kEvaluate).scalars;
  const auto counted = [&](std::string_view prefix) {
    return std::ranges::count_if(
        scalars, [&](const ScalarSpec& scalar) { return scalar.name.starts_with(prefix) && scalar.weigh == "one"; });
  };
  EXPECT_EQ(counted("evaluate/f1/count/"), 3 * 10);
  EXPECT_EQ(counted("evaluate/auc/count/"), 2 * 10 * 50);
  EXPECT_EQ(counted("evaluate/top_3/"), 2);
}

TEST_F(RunSetupTest, AnythingAskedForTwice_IsMadeOnce) {
  WriteBoth();
  RunSetup setup(scenario_);
  // The evaluator first: it asks for the plan, and the plan for the model.
  ASSERT_OK_AND_ASSIGN(const auto evaluator, setup.evaluator());
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  ASSERT_OK_AND_ASSIGN(const auto model, setup.model());
  ASSERT_OK_AND_ASSIGN(const auto shares, setup.shares());
  ASSERT_OK_AND_ASSIGN(const auto data, setup.training_data());
  EXPECT_GE(plan.use_count(), 3) << "the evaluator opened a plan of its own";
  EXPECT_EQ(setup.evaluator().value(), evaluator);
  EXPECT_EQ(setup.plan().value(), plan);
  EXPECT_EQ(setup.model().value(), model);
  EXPECT_EQ(setup.shares().value(), shares);
  EXPECT_EQ(setup.training_data().value(), data);
}

TEST_F(RunSetupTest, Plan_HasTheBytesOfItsScenarioAndModel) {
  RunSetup setup(scenario_);
  ASSERT_OK_AND_ASSIGN(const auto plan, setup.plan());
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("logistic_regression"));
  EXPECT_EQ(plan->bytes(), BuildPlan(scenario_, model).value());
}

TEST_F(RunSetupTest, TrainingDataNotThere_StopsOnlyThoseWhoNeedIt) {
  Write(scenario_.data.test, 20);
  RunSetup setup(scenario_);
  EXPECT_OK(setup.plan());
  EXPECT_OK(setup.evaluator());
  EXPECT_THAT(setup.shares(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("train.tfrecord")));
  Write(scenario_.data.train, 31);  // asked again, it is looked for again
  EXPECT_OK(setup.shares());
}

TEST_F(RunSetupTest, ModelThatIsNone_StopsOnlyThoseWhoNeedIt) {
  WriteBoth();
  scenario_.model.preset = "logistic_regresion";
  RunSetup setup(scenario_);
  EXPECT_OK(setup.shares());
  EXPECT_THAT(setup.model(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("logistic_regression")));
  EXPECT_THAT(setup.plan(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("logistic_regression")));
  EXPECT_THAT(setup.evaluator(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("logistic_regression")));
}

TEST_F(RunSetupTest, SettingsThatMakeNoPlan_AreRefusedByTheirKey) {
  scenario_.client.optimizer.kind = "adm";
  RunSetup setup(scenario_);
  EXPECT_OK(setup.model());
  EXPECT_THAT(Message(setup.plan().status()), HasSubstr("client.optimizer.kind"));
}

TEST_F(RunSetupTest, NothingToEvaluate_GivesNoEvaluatorAndOpensNothing) {
  scenario_.evaluation.every = 0;
  EXPECT_EQ(RunSetup(scenario_).evaluator().value(), nullptr);
  scenario_.evaluation.every = 1;
  scenario_.data.test = "";
  EXPECT_EQ(RunSetup(scenario_).evaluator().value(), nullptr);
}

TEST_F(RunSetupTest, TestSetNotThere_IsNamed) {
  RunSetup setup(scenario_);
  EXPECT_THAT(setup.evaluator(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("test.tfrecord")));
}

// By key the data says how many clients there are, which two algorithms divide by; others need no data for their plan.
TEST_F(RunSetupTest, ClientsThatTheDataCounts_AreTheAlgorithmsNumber) {
  scenario_.data.synth.kind = "digits";
  scenario_.data.synth.settings = {
      {"writers", int64_t{5}}, {"test_writers", int64_t{1}}, {"examples_per_writer", int64_t{2}}};
  scenario_.data.partition = {.kind = "by_key", .clients = 0, .settings = {{"key", "writer"}}};
  scenario_.client.optimizer.kind = "sgd";
  const auto denominator = [this](int64_t clients) {
    scenario_.data.partition.clients = clients;
    RunSetup setup(scenario_);
    const auto plan = setup.plan();
    EXPECT_OK(plan);
    EXPECT_EQ(setup.scenario().data.partition.clients, clients);
    return (*plan)->aggregation().Find("dc")->denominator.constant;
  };
  scenario_.algorithm.name = "fedavg";
  EXPECT_OK(RunSetup(scenario_).plan());
  EXPECT_FALSE(std::filesystem::exists(scenario_.data.train));
  scenario_.algorithm.name = "scaffold";
  EXPECT_EQ(denominator(0), 5);
  EXPECT_EQ(denominator(4), 4);
  scenario_.data.partition.clients = 0;
  scenario_.algorithm.name = "feddyn";
  EXPECT_OK(RunSetup(scenario_).plan());
  scenario_.data.train = folder_ + "/none.tfrecord";
  scenario_.data.synth.kind = "";
  EXPECT_THAT(Message(RunSetup(scenario_).plan().status()),
              ::testing::AllOf(HasSubstr("divides by the number of all clients"), HasSubstr("none.tfrecord")));
}

TEST_F(RunSetupTest, DescribedData_IsGeneratedForWhoeverAsksFirst) {
  scenario_.data.synth.kind = "digits";
  scenario_.data.synth.settings["writers"] = int64_t{3};
  scenario_.data.synth.settings["test_writers"] = int64_t{2};
  scenario_.data.synth.settings["examples_per_writer"] = int64_t{4};
  RunSetup setup(scenario_);
  EXPECT_OK(setup.plan());
  EXPECT_FALSE(std::filesystem::exists(scenario_.data.train));
  EXPECT_OK(setup.evaluator());
  ASSERT_OK_AND_ASSIGN(const auto data, setup.training_data());
  EXPECT_EQ(data->size(), 12);
}

}  // namespace
}  // namespace rivulet
