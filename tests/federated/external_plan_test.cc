// Plans without a graph: a layout that clients train with their own programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "proto/federated/plan.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Overrides = std::vector<std::pair<std::string, std::string>>;

// A trained matrix, an average that is shared, and a table of integers that nobody changes.
ModelDef Arrays() {
  ModelDef model;
  model.init_target.clear();
  model.variables = {{"w", {DType::kFloat32, {4, 3}}},
                     {"table", {DType::kInt64, {7}}, "frozen"},
                     {"mean", {DType::kFloat32, {5}}, "shared"}};
  model.metrics = {{"accuracy", ""}, {"f1", ""}};
  model.initial_model = Sha256Of("the first values");
  return model;
}

Scenario OfArrays(const Overrides& settings = {}) {
  auto scenario = Scenario::Parse(R"(run = { name = "foreign", rounds = 3 }
model = { arrays = "init.safetensors" }
data = { partition = { clients = 100 } }
client = { epochs = 2, batch_size = 5 }
server = { clients_per_round = 10 }
)",
                                  "foreign.toml", "/", settings);
  EXPECT_OK(scenario);
  return *std::move(scenario);
}

TEST(ExternalPlan, SaysTheLayoutAndNumbers_AndHasNoGraph) {
  const auto plan = ComposePlan(OfArrays(), Arrays());
  ASSERT_OK(plan);
  EXPECT_TRUE((*plan)->external());
  EXPECT_LT((*plan)->bytes().size(), 500u);
  EXPECT_EQ((*plan)->model().initial_model, Sha256Of("the first values"));
  EXPECT_EQ((*plan)->layout()->update_elements(), 17);
  EXPECT_EQ((*plan)->layout()->Find("table")->spec.dtype, DType::kInt64);
  EXPECT_EQ((*plan)->aggregation().Find("delta")->elements, 17);
  EXPECT_EQ((*plan)->dataset(), "train");
  const LocalProgram& training = (*plan)->training();
  ASSERT_EQ(training.passes.size(), 1u);
  EXPECT_EQ(training.passes[0].epochs, 2);
  EXPECT_EQ(training.passes[0].batch_size, 5);
  EXPECT_THAT(training.passes[0].scalars, ElementsAre(PassScalar{"train_loss", ""}));
  EXPECT_EQ((*plan)->program(TaskKind::kEvaluate), nullptr);
  EXPECT_THAT(InitialModel(**plan, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("plan 'foreign' has no graph")));
}

TEST(ExternalPlan, OtherFirstValues_AreAnotherPlan) {
  ModelDef other = Arrays();
  other.initial_model = Sha256Of("others");
  EXPECT_NE((*ComposePlan(OfArrays(), Arrays()))->digest(), (*ComposePlan(OfArrays(), other))->digest());
  EXPECT_EQ((*ComposePlan(OfArrays(), Arrays()))->digest(), (*ComposePlan(OfArrays(), Arrays()))->digest());
}

TEST(ExternalPlan, FederatedEvaluation_AsksForLossAndNamedMetrics) {
  const auto plan =
      ComposePlan(OfArrays({{"evaluation.federated_every", "1"}, {"evaluation.batch_size", "9"}}), Arrays());
  ASSERT_OK(plan);
  const LocalProgram* const program = (*plan)->program(TaskKind::kEvaluate);
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->passes[0].batch_size, 9);
  EXPECT_THAT(
      program->passes[0].scalars,
      ElementsAre(PassScalar{"evaluate/loss", ""}, PassScalar{"evaluate/accuracy", ""}, PassScalar{"evaluate/f1", ""}));
}

TEST(ExternalPlan, AlgorithmsThatLeaveTrainingAlone_AreTaken) {
  for (const char* name : {"fedavg", "fedadam", "fedbuff", "trimmed_mean"}) {
    EXPECT_OK(ComposePlan(OfArrays({{"algorithm.name", name}}), Arrays()));
  }
  for (const char* name : {"fedprox", "moon"}) {
    EXPECT_THAT(ComposePlan(OfArrays({{"algorithm.name", name}}), Arrays()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("[algorithm] name = \"" + std::string(name) + "\" defines the clients' training")));
  }
}

TEST(ExternalPlan, TrainedIntegers_AreRefusedByName) {
  ModelDef model = Arrays();
  model.variables[1].segment = "trainable";
  EXPECT_THAT(ComposePlan(OfArrays(), model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("trainable variable 'table' is int64; updates are float32")));
}

TEST(ExternalPlan, Forged_IsRefusedInASentence) {
  struct Case {
    std::function<void(proto::Plan&)> forge;
    const char* sentence;
  };
  const auto pass = [](proto::Plan& p) { return p.mutable_programs(0)->mutable_passes(0); };
  const std::vector<Case> cases = {
      {[](auto& p) { p.mutable_model()->set_init_target("init"); }, "names nodes of a model graph, and has no graph"},
      {[](auto& p) { p.mutable_model()->add_features(); }, "names nodes of a model graph, and has no graph"},
      {[](auto& p) { p.mutable_model()->clear_initial_model(); }, "its digest of the model to begin with"},
      {[](auto& p) { p.mutable_model()->mutable_variables(0)->set_dtype(9999); }, "the plan's variable 'w'"},
      {[](auto& p) { p.mutable_model()->mutable_variables(0)->set_shape(0, -1); }, "variable 'w' cannot be laid out"},
      {[](auto& p) { p.mutable_model()->mutable_variables(2)->set_segment("local"); }, "is of segment local"},
      {[](auto& p) { p.mutable_model()->mutable_variables(0)->set_name("mean"); }, "mean"},
      {[](auto& p) { p.mutable_flats()->set_slots(1); }, "has flat variables, and no graph"},
      {[&](auto& p) { pass(p)->set_step("x"); }, "plan's model has none to run"},
      {[&](auto& p) { pass(p)->set_gradient_by("params"); }, "plan's model has none to run"},
      {[&](auto& p) { pass(p)->add_models(); }, "plan's model has none to run"},
      {[&](auto& p) { pass(p)->mutable_scalars(0)->set_tensor("loss"); }, "plan's model has none to run"},
      {[&](auto& p) { pass(p)->set_epochs(0); }, "the plan asks for 0 epochs"},
      {[&](auto& p) { pass(p)->clear_dataset(); }, "data set"}};
  const auto good = ComposePlan(OfArrays(), Arrays());
  ASSERT_OK(good);
  for (const Case& c : cases) {
    proto::Plan message;
    ASSERT_TRUE(message.ParseFromString((*good)->bytes()));
    c.forge(message);
    EXPECT_THAT(Plan::Open(message.SerializeAsString()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.sentence)));
  }
}

}  // namespace
}  // namespace rivulet
