// Models with given initial values.
#include "engine/models/first_values.h"

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "engine/presets/presets.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<float> ValuesAtFirst(const ModelDef& model, const std::string& variable) {
  // As clients get it: read back from its bytes.
  const auto graph = ParseGraph(SerializeGraph(model.graph));
  EXPECT_OK(graph);
  const auto session = Session::Create(graph->Clone(), {.seed = 5});
  EXPECT_OK(session);
  EXPECT_OK((*session)->Run({}, {}, {model.init_target}));
  const auto values = (*session)->Run({}, {variable + "/Read"}, {});
  EXPECT_OK(values);
  const auto flat = (*values)[0].flat<float>();
  return {flat.begin(), flat.end()};
}

TEST(SetFirstValues, Values_AreWhatTheTargetAssigns_AndOthersStay) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("logistic_regression"));
  const std::vector<float> kernel = ValuesAtFirst(model, "dense1/kernel");
  const std::vector<ModelVariable> variables = model.variables;
  Tensor bias(DType::kFloat32, {10});
  for (float& value : bias.flat<float>()) value = 2.5f;
  ASSERT_OK(SetFirstValues(model, {{"dense1/bias", bias}}));
  EXPECT_THAT(ValuesAtFirst(model, "dense1/bias"), Each(2.5f));
  EXPECT_EQ(ValuesAtFirst(model, "dense1/kernel"), kernel);
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(SerializeGraph(model.graph)));
  ASSERT_OK_AND_ASSIGN(const auto after, VariablesOf(graph));
  ASSERT_EQ(after.size(), variables.size());
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].name, variables[i].name);
}

TEST(SetFirstValues, WhatIsNoVariable_IsRefused) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("logistic_regression"));
  EXPECT_THAT(testing::ErrorOf(SetFirstValues(model, {{"dense1/bais", Tensor(DType::kFloat32, {10})}})),
              HasSubstr("dense1/bias"));
  ASSERT_OK_AND_ASSIGN(model, Preset("logistic_regression"));
  EXPECT_THAT(testing::ErrorOf(SetFirstValues(model, {{"dense1/bias", Tensor(DType::kFloat32, {11})}})),
              HasSubstr("[11]"));
}

}  // namespace
}  // namespace rivulet
