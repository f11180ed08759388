// Every preset makes a valid plan, with initial values that depend on the seed alone.
#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

class PresetPlan : public ::testing::TestWithParam<std::pair<std::string, int64_t>> {};

TEST_P(PresetPlan, OpensAndInitialises) {
  const auto& [preset, parameters] = GetParam();
  const auto scenario = Scenario::Parse(
      fmt::format("model.preset = \"{}\"\ndata = {{ train = \"t\", partition.clients = 100 }}\n", preset), "s.toml",
      "/");
  ASSERT_OK(scenario);
  const auto model_def = Preset(preset);
  ASSERT_OK(model_def);
  const auto bytes = BuildPlan(*scenario, *model_def);
  ASSERT_OK(bytes);
  EXPECT_LT(bytes->size(), 100'000u);  // no weights in it
  const auto plan = Plan::Open(*bytes);
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->layout()->parameters(), parameters);
  EXPECT_EQ((*plan)->aggregation().parts[0].elements, parameters);
  EXPECT_EQ((*plan)->model().metrics.size(), 1u);

  const auto model = InitialModel(**plan, 1);
  ASSERT_OK(model);
  EXPECT_EQ((*model)->ComputeDigest(), (*InitialModel(**plan, 1))->ComputeDigest());
  EXPECT_NE((*model)->ComputeDigest(), (*InitialModel(**plan, 2))->ComputeDigest());
  const auto again = ModelFromSafetensors((*plan)->layout(), ModelToSafetensors(**model, {}));
  ASSERT_OK(again);
  EXPECT_TRUE(std::equal((*again)->arena().begin(), (*again)->arena().end(), (*model)->arena().begin()));
}

INSTANTIATE_TEST_SUITE_P(All, PresetPlan,
                         ::testing::Values(std::pair("logistic_regression", int64_t{7850}),
                                           std::pair("mlp", int64_t{199210}), std::pair("mnist_cnn", int64_t{1663370}),
                                           std::pair("lenet5", int64_t{61706}),
                                           std::pair("cifar_cnn", int64_t{1626442})),
                         [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace rivulet
