#include "engine/models/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/models/first_values.h"
#include "engine/presets/presets.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(MoveToBase, FrozenVariables_LeaveTheGraphsFirstValues) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("logistic_regression"));
  const std::string weights = model.variables[0].name, bias = model.variables[1].name;
  Tensor values(DType::kFloat32, model.variables[0].spec.shape);
  ASSERT_OK(SetFirstValues(model, {{weights, values}}));
  ASSERT_OK(Freeze(model, std::vector<std::string>{weights}));
  const size_t before = model.graph.nodes().size();
  ASSERT_OK(MoveToBase(model, {weights}));
  EXPECT_EQ(model.variables[0].name, weights);  // its place stays
  EXPECT_EQ(model.variables[0].segment, "base");
  EXPECT_EQ(model.variables[1].segment, "trainable");
  EXPECT_LT(model.graph.nodes().size(), before - 3);  // both assignments and what made the values
  bool assigns_bias = false;
  for (const auto& node : model.graph.nodes()) {
    if (const Tensor* value = node->FindAttr<Tensor>("value")) {
      EXPECT_LT(value->elements(), values.elements());
    }
    if (node->type() != "AssignVariableOp") continue;
    EXPECT_NE(node->input(0).node->name(), weights);
    assigns_bias = assigns_bias || node->input(0).node->name() == bias;
  }
  EXPECT_TRUE(assigns_bias);
  EXPECT_NE(model.graph.Find(model.init_target), nullptr);
}

TEST(MoveToBase, TrainedVariable_IsRefused) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("logistic_regression"));
  EXPECT_THAT(MoveToBase(model, {model.variables[0].name}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is trainable")));
}

}  // namespace
}  // namespace rivulet
