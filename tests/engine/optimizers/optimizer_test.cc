// Processing between gradients and variables: clipping, masks, and every optimiser's slots.
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

TEST(Optimizers, EveryKind_HasADocAndSettingsWithMeanings) {
  const std::vector<const OptimizerTable*> tables = OptimizerTables();
  EXPECT_GE(tables.size(), 8u);
  for (const OptimizerTable* table : tables) {
    SCOPED_TRACE(table->name);
    EXPECT_FALSE(table->doc.empty());
    EXPECT_EQ(table->settings.front().name, "learning_rate");
    EXPECT_EQ(table->settings.back().name, "weight_decay");
    for (const Setting& setting : table->settings) EXPECT_GT(setting.doc.size(), 10u) << setting.name;
    ASSERT_OK_AND_ASSIGN(const Optimizer optimizer, Optimizer::Create({.kind = table->name}));
    EXPECT_EQ(optimizer.kind().name, table->name);
    EXPECT_EQ(optimizer.betas().has_value(), FindSetting(table->settings, "beta1") != nullptr);
  }
  EXPECT_THAT(Optimizer::Create({.kind = "adamm"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'adam'?")));
}

// An optimiser is one registered file: here it is part of this one.
std::vector<std::string>& SeenTables() {
  static auto* const seen = new std::vector<std::string>;
  return *seen;
}
[[maybe_unused]] const bool visits = [] {
  ForEachOptimizerTable([](const OptimizerTable& table) { SeenTables().push_back(table.name); });
  return true;
}();

UpdateVariable PartialUpdates(const UpdateScope& scope) {
  const Output rate = scope.scope().Op("Mul", {scope.learning_rate(), scope.Scalar("share")});
  return [rate](const VariableUpdate& update) {
    return update.Apply("ResourceApplyGradientDescent", {rate, update.gradient});
  };
}
RIVULET_OPTIMIZER(partial_registration, {.name = "partial",
                                         .doc = "descends by a share of the gradient",
                                         .settings = {Float("share", 0.5, "Share of the gradient.").Between(0, 1)},
                                         .updates = PartialUpdates});

TEST(Optimizers, Visitors_SeeTablesRegisteredBeforeAndAfter) {
  std::vector<std::string> all;
  for (const OptimizerTable* table : OptimizerTables()) all.push_back(table->name);
  EXPECT_THAT(SeenTables(), ::testing::UnorderedElementsAreArray(all));
  EXPECT_THAT(SeenTables(), ::testing::Contains("partial")) << "it was registered after the visitor";
}

TEST(Optimizers, UsualValues_AreThoseOfTheirSources) {
  const auto usual = [](const char* kind, const char* setting) {
    return Optimizer::Create({.kind = kind})->settings().number(setting);
  };
  EXPECT_EQ(usual("momentum", "momentum"), 0.9);
  EXPECT_EQ(usual("rmsprop", "momentum"), 0);
  EXPECT_EQ(usual("rmsprop", "epsilon"), 1e-7);
  EXPECT_EQ(usual("adam", "epsilon"), 1e-8);
  EXPECT_EQ(usual("adam", "weight_decay"), 0);
  EXPECT_EQ(usual("adamw", "weight_decay"), 0.01);
  EXPECT_EQ(usual("adagrad", "epsilon"), 1e-10);
  EXPECT_EQ(usual("adadelta", "epsilon"), 1e-6);
  EXPECT_EQ(usual("yogi", "epsilon"), 1e-3);
  EXPECT_EQ(usual("yogi", "initial_accumulator"), 1e-6);
}

TEST(Optimizers, SettingsOutOfRangeOrOfAnotherKind_AreRefused) {
  const auto refused = [](const OptimizerSpec& spec, const char* message) {
    EXPECT_THAT(Optimizer::Create(spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refused({.kind = "adam", .settings = {{"beta1", 1.0}}},
          "optimizer 'adam': beta1 must be at least 0 and below 1, not 1");
  refused({.kind = "yogi", .settings = {{"beta2", -0.1}}}, "beta2 must be at least 0 and below 1, not -0.1");
  refused({.kind = "rmsprop", .settings = {{"rho", 2.0}}}, "rho must be at least 0 and below 1, not 2");
  refused({.kind = "adadelta", .settings = {{"epsilon", 0.0}}}, "epsilon must be above 0 and below 1000000, not 0");
  refused({.kind = "adagrad", .settings = {{"initial_accumulator", -1.0}}},
          "initial_accumulator must be at least 0 and at most 1000000, not -1");
  refused({.settings = {{"weight_decay", std::nan("")}}}, "weight_decay must be a finite number, not nan");
  refused({.learning_rate = -1}, "learning_rate must be at least 0");
  refused({.kind = "sgd", .settings = {{"momentum", 0.5}}}, "unknown key 'momentum'");
}

// Two variables of different types, five steps of a constant gradient: a step goes against it, by about the learning
// rate where the kind normalises.
TEST(ApplyGradients, EveryKind_MovesVariablesOfBothTypes) {
  for (const OptimizerTable* kind : OptimizerTables()) {
    SCOPED_TRACE(kind->name);
    Graph graph;
    const Scope scope(graph);
    Variable(scope, "a", Shape{2}, Zeros());
    VariableOptions wide;
    wide.dtype = DType::kFloat64;
    Variable(scope, "b", Shape{1}, Zeros(), wide);
    const std::vector<Output> handles = {FindVariable(graph, "a").value(), FindVariable(graph, "b").value()};
    const std::vector<Output> gradients = {scope.Const(Tensor::Of<float>(Shape{2}, {0.5f, -0.5f})),
                                           scope.Const(Tensor::Of<double>(Shape{1}, {0.5}))};
    const OptimizerSpec spec = {.kind = kind->name, .learning_rate = 0.1};
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
    if (kind->name == "adam") {
      EXPECT_NEAR(moved, -0.5, 1e-6);  // a constant gradient moves by the learning rate
    }
  }
}

}  // namespace
}  // namespace rivulet
