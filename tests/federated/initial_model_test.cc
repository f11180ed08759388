// Initial values of a model without a plan: those of a session without a seed.
#include <cstring>

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/presets/presets.h"
#include "federated/plan/plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Variables of scalars whose first values the test adds.
struct BareModel {
  Output Variable(const std::string& name, DType dtype, AttrMap more = {}) {
    AttrMap attrs = {{"dtype", dtype}, {"shape", Shape{}}, {"shared_name", name}};
    attrs.merge(more);
    return scope.Op("VarHandleOp", {}, std::move(attrs), name);
  }
  Node* Assign(Output variable, Output value) {
    return scope.AddNode("AssignVariableOp", {variable, value}, {{"dtype", value.dtype()}}, "");
  }
  // "init" runs `nodes`.
  StatusOr<NamedTensors> Initialise(const std::vector<Node*>& nodes) {
    scope.WithControl(nodes).AddNode("NoOp", {}, {}, "init");
    RIVULET_RETURN_IF_ERROR(scope.status());
    RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
    return InitialModel(model);
  }
  ModelDef model;
  Scope scope{model.graph};
};

TEST(InitialModelOfABareModel, HasTheBitsOfASession) {
  for (const std::string preset : {"mlp", "mobilenet_v2", "char_lstm", "tiny_transformer"}) {
    ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset(preset));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(model.graph.Clone()));
    ASSERT_OK(session->Run({}, {}, {model.init_target}));
    ASSERT_OK_AND_ASSIGN(const NamedTensors values, InitialModel(model));
    ASSERT_EQ(values.size(), model.variables.size()) << preset;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& [name, value] = values[i];
      EXPECT_EQ(name, model.variables[i].name);
      ASSERT_OK_AND_ASSIGN(const Tensor expected, session->GetVariable(name));
      ASSERT_EQ(value.bytes(), expected.bytes()) << name;
      EXPECT_EQ(std::memcmp(value.data(), expected.data(), value.bytes()), 0) << preset << " " << name;
    }
  }
}

TEST(InitialModelOfABareModel, VariablesOfAnyType_AndThoseOfAnOptimiser_AreRun) {
  BareModel bare;
  const Output step = bare.Variable("step", DType::kInt64);
  const Output weight = bare.Variable("weight", DType::kFloat32);
  const Output slot = bare.Variable("slot", DType::kFloat32, {{"_segment", "slot"}});
  ASSERT_OK_AND_ASSIGN(const NamedTensors values,
                       bare.Initialise({bare.Assign(step, bare.scope.Const(Tensor::Scalar<int64_t>(7))),
                                        bare.Assign(weight, bare.scope.Const(Tensor::Scalar(0.5f))),
                                        bare.Assign(slot, bare.scope.Const(Tensor::Scalar(1.0f)))}));
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].first, "step");
  EXPECT_THAT(values[0].second.flat<int64_t>(), ElementsAre(7));
  EXPECT_EQ(values[1].first, "weight");
  EXPECT_THAT(values[1].second.flat<float>(), ElementsAre(0.5f));
}

TEST(InitialModelOfABareModel, AVariableThatIsNotAssigned_IsLeftOut) {
  BareModel bare;
  bare.Variable("unset", DType::kFloat32);
  const Output weight = bare.Variable("weight", DType::kFloat32);
  ASSERT_OK_AND_ASSIGN(const NamedTensors values,
                       bare.Initialise({bare.Assign(weight, bare.scope.Const(Tensor::Scalar(0.5f)))}));
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].first, "weight");
}

TEST(InitialModelOfABareModel, AVariableThatIsReadWithoutAValue_IsRefused) {
  BareModel bare;
  const Output unset = bare.Variable("unset", DType::kFloat32);
  const Output weight = bare.Variable("weight", DType::kFloat32);
  const Output read = bare.scope.Op("ReadVariableOp", {unset}, {{"dtype", DType::kFloat32}});
  EXPECT_THAT(testing::ErrorOf(bare.Initialise({bare.Assign(weight, read)})),
              HasSubstr("the variable 'unset' is read before it has a value"));
}

TEST(InitialModelOfABareModel, WithoutAnInitTarget_IsRefused) {
  ModelDef model;
  EXPECT_THAT(testing::ErrorOf(InitialModel(model)),
              HasSubstr("the graph has no 'init' that gives its variables values"));
}

}  // namespace
}  // namespace rivulet
