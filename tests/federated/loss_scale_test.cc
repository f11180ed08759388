#include "federated/plan/loss_scale.h"

#include <limits>

#include "dataflow/session/session.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

ModelLayout SixteenNumbers() {
  const std::vector<VariableSpec> variables = {{"w", {DType::kFloat32, Shape{16}}, Segment::kTrainable}};
  auto layout = ModelLayout::Create(variables);
  EXPECT_OK(layout);
  return *std::move(layout);
}

// The step of a rule, run on variables that a test sets.
class ScaledRule {
 public:
  ScaledRule(const std::string& optimizer, LossScaleConfig config) {
    ClientConfig client;
    client.optimizer.kind = optimizer;
    client.optimizer.learning_rate = 0.5;
    auto rule = MakeLocalRule(client, SixteenNumbers());
    EXPECT_OK(rule);
    auto scale = AddLossScale(config, *rule);
    EXPECT_OK(scale);
    scale_ = *scale;
    scalars_ = rule->scalars;
    slots_ = rule->slots;
    auto init = Session::Create(std::move(rule->begin));
    EXPECT_OK(init);
    for (int slot = 0; slot < slots_; ++slot)
      EXPECT_OK((*init)->SetVariable(fmt::format("slots/{}", slot), Tensor(DType::kFloat32, Shape{16})));
    EXPECT_OK((*init)->Run({}, {}, {kRunTarget}).status());
    auto step = Session::Create(std::move(rule->step));
    EXPECT_OK(step);
    step_ = *std::move(step);
    for (const std::string& name : (*init)->variables())
      EXPECT_OK(step_->SetVariable(name, *(*init)->GetVariable(name)));
    Tensor params(DType::kFloat32, Shape{16});
    for (size_t i = 0; i < 16; ++i) params.flat<float>()[i] = static_cast<float>(i) - 4;
    EXPECT_OK(step_->SetVariable("params", params));
  }

  // One step with gradients that are `gradient` times the scale, and the 7th `odd`.
  void Step(float gradient, float odd) {
    Tensor grads(DType::kFloat32, Shape{16});
    for (float& value : grads.flat<float>()) value = gradient * static_cast<float>(Scale());
    grads.flat<float>()[7] = odd * static_cast<float>(Scale());
    ASSERT_OK(step_->SetVariable("grads", grads));
    ASSERT_OK(step_->Run({}, {}, {kRunTarget}).status());
  }
  double Scale() const { return step_->GetVariable(scale_)->flat<double>()[0]; }
  float Parameter(size_t i) const { return step_->GetVariable("params")->flat<float>()[i]; }
  // Everything but the scale and its counter, as bytes.
  std::string State() const {
    std::string bytes;
    for (const std::string& name : step_->variables()) {
      const bool of_scale = name == scale_ || name == fmt::format("scalars/{}", scalars_ - 1);
      if (name == "grads" || of_scale) continue;
      const Tensor value = *step_->GetVariable(name);
      bytes.append(reinterpret_cast<const char*>(value.data()), value.bytes());
    }
    return bytes;
  }

 private:
  std::string scale_;
  int scalars_ = 0, slots_ = 0;
  std::unique_ptr<Session> step_;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(LossScale, FiniteGradients_AreDividedByTheScale) {
  ScaledRule rule("sgd", {.kind = "static", .settings = {{"scale", 64.0}}});
  rule.Step(0.25f, 1.0f);
  EXPECT_EQ(rule.Parameter(0), -4 - 0.125f);
  EXPECT_EQ(rule.Parameter(7), 3 - 0.5f);
  EXPECT_EQ(rule.Scale(), 64);
}

TEST(LossScale, OneGradientThatIsNotFinite_LeavesAllAsItWas) {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adagrad"}) {
    for (const float odd : {kInfinity, -kInfinity, kNan}) {
      ScaledRule rule(optimizer, {.kind = "dynamic", .settings = {{"scale", 64.0}}});
      rule.Step(0.25f, 1.0f);
      const std::string before = rule.State();
      rule.Step(0.25f, odd);
      EXPECT_TRUE(rule.State() == before) << optimizer << " after " << odd;
      rule.Step(0.25f, 1.0f);
      EXPECT_FALSE(rule.State() == before) << optimizer;
    }
  }
}

TEST(LossScale, DynamicScale_HalvesAndGrowsAsItIsTold) {
  ScaledRule rule("momentum", {.kind = "dynamic", .settings = {{"scale", 64.0}, {"growth_steps", int64_t{3}}}});
  rule.Step(0.25f, kInfinity);
  EXPECT_EQ(rule.Scale(), 32);
  rule.Step(0.25f, 1);
  rule.Step(0.25f, 1);
  EXPECT_EQ(rule.Scale(), 32);
  rule.Step(0.25f, 1);  // the third in a row
  EXPECT_EQ(rule.Scale(), 64);
  rule.Step(0.25f, 1);
  rule.Step(0.25f, kNan);  // the row ends, and begins again
  EXPECT_EQ(rule.Scale(), 32);
  rule.Step(0.25f, 1);
  rule.Step(0.25f, 1);
  EXPECT_EQ(rule.Scale(), 32);
  rule.Step(0.25f, 1);
  EXPECT_EQ(rule.Scale(), 64);
}

TEST(LossScale, StaticScale_Stays) {
  ScaledRule rule("momentum", {.kind = "static", .settings = {{"scale", 64.0}}});
  rule.Step(0.25f, kInfinity);
  EXPECT_EQ(rule.Scale(), 64);
}

TEST(LossScale, StepWithoutGradients_IsRefused) {
  LocalRule rule;
  for (Graph* graph : {&rule.begin, &rule.step})
    ASSERT_OK(graph->AddNode({.name = kRunTarget, .op = "NoOp", .inputs = {}}).status());
  EXPECT_THAT(AddLossScale({.kind = "static"}, rule),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no gradients")));
}

}  // namespace
}  // namespace rivulet
