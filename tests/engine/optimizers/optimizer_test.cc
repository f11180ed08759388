// What happens between gradients and variables: clipping, masks, and every optimiser's slots.
#include "engine/optimizers/optimizer.h"

#include <cmath>

#include "dataflow/session/session.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/optimizers/transform_gradients.h"
#include "engine/variables/variables.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using Kind = OptimizerSpec::Kind;

class TransformTest : public ::testing::Test {
 protected:
  TransformTest() : scope_(graph_) {
    gradients_ = {scope_.Const(Tensor::Of<float>(Shape{2}, {3.0f, -1.0f})),
                  scope_.Const(Tensor::Of<float>(Shape{1}, {4.0f}))};
  }
  // All elements, one gradient after the other.
  std::vector<float> Values(const std::vector<Output>& outputs) {
    EXPECT_OK(scope_.status());
    std::vector<std::string> names;
    for (const Output& output : outputs) names.push_back(output.name());
    const auto fetched = testing::RunGraph(graph_, {}, names);
    EXPECT_OK(fetched);
    std::vector<float> values;
    if (fetched.ok())
      for (const Tensor& tensor : *fetched)
        values.insert(values.end(), tensor.flat<float>().begin(), tensor.flat<float>().end());
    return values;
  }
  Graph graph_;
  Scope scope_;
  std::vector<Output> gradients_;
};

TEST_F(TransformTest, ClipByValue_BoundsEachElement) {
  EXPECT_THAT(Values(ClipGradientsByValue(scope_, gradients_, 2)), ElementsAre(2, -1, 2));
}

TEST_F(TransformTest, ClipByNorm_ShortensAllTogether) {
  // √(9 + 1 + 16) = √26
  const float scale = 2 / std::sqrt(26.0f);
  EXPECT_THAT(Values(ClipGradientsByNorm(scope_, gradients_, 2)),
              ElementsAre(FloatEq(3 * scale), FloatEq(-scale), FloatEq(4 * scale)));
  EXPECT_THAT(Values(ClipGradientsByNorm(scope_, gradients_, 100)), ElementsAre(3, -1, 4));
}

TEST_F(TransformTest, BadBounds_AreRefused) {
  ClipGradientsByNorm(scope_, gradients_, 0);
  EXPECT_THAT(scope_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be positive, but is 0")));
}

TEST(OptimizerByName, EveryKind_IsFoundByItsName) {
  for (const char* name : {"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adadelta", "yogi"}) {
    ASSERT_OK_AND_ASSIGN(const Kind kind, OptimizerByName(name));
    EXPECT_EQ(Name(kind), name);
    EXPECT_OK(CheckOptimizer(OptimizerSpec::Of(kind)));
  }
  EXPECT_EQ(OptimizerByName("sgd").value(), Kind::kSgd);
  EXPECT_EQ(OptimizerByName("rmsprop").value(), Kind::kRmsProp);
  EXPECT_EQ(OptimizerByName("yogi").value(), Kind::kYogi);
  EXPECT_THAT(OptimizerByName("adamm"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'adam'?")));
}

TEST(OptimizerSpec, WhatIsUsualForAKind_IsWhatItsSourceSays) {
  EXPECT_EQ(OptimizerSpec::Of(Kind::kMomentum).momentum, 0.9);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kRmsProp).momentum, 0);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kRmsProp).epsilon, 1e-7);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kAdam).epsilon, 1e-8);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kAdam).weight_decay, 0);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kAdamW).weight_decay, 0.01);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kAdagrad).epsilon, 1e-10);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kAdadelta).epsilon, 1e-6);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kYogi).epsilon, 1e-3);
  EXPECT_EQ(OptimizerSpec::Of(Kind::kYogi).initial_accumulator, 1e-6);
}

TEST(CheckOptimizer, SettingsOutOfRange_AreRefused) {
  const auto refused = [](OptimizerSpec spec, const char* message) {
    EXPECT_THAT(CheckOptimizer(spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused({.kind = Kind::kAdam, .beta1 = 1}, "beta1 must be at least 0 and below 1, not 1");
  refused({.kind = Kind::kYogi, .beta2 = -0.1}, "beta2 must be at least 0 and below 1, not -0.1");
  refused({.kind = Kind::kRmsProp, .rho = 2}, "rho must be at least 0 and below 1, not 2");
  refused({.kind = Kind::kAdadelta, .epsilon = 0}, "epsilon must be above 0 and below 1000000, not 0");
  refused({.kind = Kind::kAdagrad, .initial_accumulator = -1},
          "initial_accumulator must be at least 0 and at most 1000000, not -1");
  refused({.weight_decay = std::nan("")}, "weight_decay must be a finite number, not nan");
}

// Two variables of different types, five steps of a constant gradient: a step goes against it, by about the learning
// rate where the kind normalises.
TEST(ApplyGradients, EveryKind_MovesVariablesOfBothTypes) {
  for (const Kind kind : {Kind::kSgd, Kind::kMomentum, Kind::kAdagrad, Kind::kRmsProp, Kind::kAdam, Kind::kAdamW,
                          Kind::kAdadelta, Kind::kYogi}) {
    SCOPED_TRACE(Name(kind));
    Graph graph;
    const Scope scope(graph);
    Variable(scope, "a", Shape{2}, Zeros());
    VariableOptions wide;
    wide.dtype = DType::kFloat64;
    Variable(scope, "b", Shape{1}, Zeros(), wide);
    const std::vector<Output> handles = {FindVariable(graph, "a").value(), FindVariable(graph, "b").value()};
    const std::vector<Output> gradients = {scope.Const(Tensor::Of<float>(Shape{2}, {0.5f, -0.5f})),
                                           scope.Const(Tensor::Of<double>(Shape{1}, {0.5}))};
    OptimizerSpec spec = OptimizerSpec::Of(kind);
    spec.learning_rate = 0.1;
    ASSERT_OK_AND_ASSIGN(const Node* step, ApplyGradients(scope, spec, handles, gradients));
    const std::string target = step->name();
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
    ASSERT_OK(session->Run({}, {}, {"init"}));
    for (int i = 0; i < 5; ++i) ASSERT_OK(session->Run({}, {}, {target}));
    ASSERT_OK_AND_ASSIGN(const Tensor a, session->GetVariable("a"));
    ASSERT_OK_AND_ASSIGN(const Tensor b, session->GetVariable("b"));
    const double moved = b.flat<double>()[0];
    EXPECT_LT(moved, -1e-4);
    EXPECT_GT(moved, -2);
    EXPECT_NEAR(a.flat<float>()[0], moved, 1e-5 * std::abs(moved) + 1e-7);
    EXPECT_EQ(a.flat<float>()[1], -a.flat<float>()[0]);
    if (kind == Kind::kAdam) {
      EXPECT_NEAR(moved, -0.5, 1e-6);  // a constant gradient moves by the learning rate
    }
  }
}

}  // namespace
}  // namespace rivulet
