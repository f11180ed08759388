// Variables of the segment "local": trained like others, kept by their client, in no update and no version.
#include <gmock/gmock.h>

#include "client/training/pass_programs.h"
#include "engine/models/freeze.h"
#include "federated/random/streams.h"
#include "federated/states/state_blob.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet {
namespace {

using testing::ErrorOf;
using testing::FourPixels;
using ::testing::HasSubstr;

Scenario PersonalScenario() {
  Scenario scenario = testing::LocalScenario();
  scenario.evaluation.every = 0;
  scenario.client.batch_size = 2;
  return scenario;
}

ModelDef PersonalBias() {
  ModelDef model = FourPixels();
  EXPECT_OK(MakePersonal(model, std::vector<std::string>{"b"}));
  return model;
}

struct Done {
  std::vector<float> delta;
  std::string state;
};

StatusOr<Done> TrainFrom(const std::shared_ptr<const Plan>& plan, const Model& base, const std::string& state) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(0, 5)),
                                 std::nullopt, decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-a-0";
  task.stream_key = ClientKey(42, "a");
  const LaneTask lane{&task, "a", &base, &examples, state};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  RIVULET_RETURN_IF_ERROR(results[0].status);
  Done done{{}, std::move(results[0].state)};
  for (const FloatRun& run : results[0].parts[0].runs)
    for (int64_t i = 0; i < run.count; ++i) done.delta.push_back(ValueOf(run, i));
  return done;
}

// Weights as the pattern says, and this bias, wherever it lies.
std::shared_ptr<const Model> BaseWith(const Plan& plan, const std::vector<float>& bias) {
  auto model = std::make_shared<Model>(plan.layout());
  for (const Slice& slice : plan.layout()->slices()) {
    const auto values = model->tensor(slice).flat<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = slice.name == "b" ? bias[i] : static_cast<float>(static_cast<int>(i) * 37 % 101 - 50) * 0.01f;
    }
  }
  return model;
}

std::vector<float> BiasIn(const std::string& state) {
  std::vector<float> padded(16);
  EXPECT_OK(ReadState(state, std::vector<NamedState>{{"params/local", padded}}));
  return {padded.begin(), padded.begin() + 3};
}

TEST(LocalVariables, AreTrainedKeptAndInNoUpdate) {
  ASSERT_OK_AND_ASSIGN(const auto personal, ComposePlan(PersonalScenario(), PersonalBias()));
  ASSERT_OK_AND_ASSIGN(const auto plain, ComposePlan(PersonalScenario(), FourPixels()));
  EXPECT_TRUE(personal->keeps_state());
  EXPECT_EQ(personal->aggregation().parts[0].elements, 12);
  // What the base has in their place is nothing to anybody.
  const auto base = BaseWith(*personal, {5, 6, 7});
  std::vector<float> bias(3);  // the model's own first values
  std::string state;
  for (int task = 0; task < 3; ++task) {
    ASSERT_OK_AND_ASSIGN(const Done own, TrainFrom(personal, *base, state));
    const auto whole = BaseWith(*plain, bias);
    ASSERT_OK_AND_ASSIGN(const Done all, TrainFrom(plain, *whole, ""));
    ASSERT_EQ(own.delta.size(), 12u);
    ASSERT_EQ(all.delta.size(), 15u);
    // In wire order the weights come first in both.
    EXPECT_EQ(own.delta, std::vector<float>(all.delta.begin(), all.delta.begin() + 12)) << task;
    state = own.state;
    const std::vector<float> kept = BiasIn(state);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(kept[i] - bias[i], all.delta[12 + i]) << task;
      EXPECT_NE(kept[i], bias[i]);
    }
    bias = kept;
  }
}

// Clients begin alike or not as the model's init says, and the same client always so.
TEST(LocalVariables, FirstValues_AreTheClientsOwn) {
  ModelDef model = *Preset("mlp");
  ASSERT_OK(MakePersonal(model, std::vector<std::string>{"dense3/*"}));
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(PersonalScenario(), model));
  const Slice& kernel = *plan->layout()->Find("dense3/kernel");
  const auto first = [&](const char* client) {
    const auto initial = InitialModel(*plan, ClientKey(42, client));
    EXPECT_OK(initial);
    const auto values = (*initial)->tensor(kernel).flat<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(first("a"), first("a"));
  EXPECT_NE(first("a"), first("b"));
}

TEST(LocalVariables, WhateverTakesTheBaseForAWholeModel_IsRefusedByName) {
  const auto refusal = [](const std::string& algorithm) {
    Scenario scenario = PersonalScenario();
    scenario.algorithm.name = algorithm;
    return ErrorOf(ComposePlan(scenario, PersonalBias()));
  };
  EXPECT_EQ(refusal("fedprox"), "variable 'b' is local, so that no version has it, and a pass reads the base model");
  EXPECT_EQ(refusal("ditto"), "variable 'b' is local, so that no version has it, and a state begins as the base model");
  Scenario measured = PersonalScenario();
  measured.evaluation.every = 1;
  EXPECT_THAT(ErrorOf(ComposePlan(measured, PersonalBias())), HasSubstr("set evaluation.every to 0"));
}

// No version has the variable: a client measures the others of the version with its own, and a first time with what it
// would begin with.
TEST(LocalVariables, AreMeasuredByWhoHasThem) {
  Scenario scenario = PersonalScenario();
  scenario.evaluation.federated_every = 1;
  ASSERT_OK_AND_ASSIGN(const auto personal, ComposePlan(scenario, PersonalBias()));
  ASSERT_OK_AND_ASSIGN(const auto plain, ComposePlan(scenario, FourPixels()));
  EXPECT_TRUE(personal->measures_state());
  EXPECT_FALSE(plain->measures_state());
  const auto measure = [](const std::shared_ptr<const Plan>& plan, const Model& base, const std::string& state,
                          const std::string& name) {
    const auto decoder = ExampleDecoder::Create(plan->features());
    const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(0, 5)),
                                   std::nullopt, *decoder);
    const auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
    Task task;
    task.id = "run-e1-a1-a-0";
    task.kind = TaskKind::kEvaluate;
    task.stream_key = ClientKey(42, "a");
    const LaneTask lane{&task, "a", &base, &examples, state};
    const auto results = (*trainer)->Train({&lane, 1});
    EXPECT_OK(results);
    EXPECT_OK(results->at(0).status);
    EXPECT_EQ(results->at(0).state, "") << "an evaluation keeps nothing";
    return results->at(0).declared.at(name);
  };
  const auto base = BaseWith(*personal, {5, 6, 7});
  ASSERT_OK_AND_ASSIGN(const Done trained, TrainFrom(personal, *base, ""));
  const auto begun = BaseWith(*plain, {0, 0, 0}), whole = BaseWith(*plain, BiasIn(trained.state));
  EXPECT_EQ(measure(personal, *base, "", "personal/loss"), measure(plain, *begun, "", "evaluate/loss"));
  EXPECT_EQ(measure(personal, *base, trained.state, "personal/loss"), measure(plain, *whole, "", "evaluate/loss"));
  EXPECT_NE(measure(personal, *base, trained.state, "personal/loss"), measure(personal, *base, "", "personal/loss"));
}

}  // namespace
}  // namespace rivulet
