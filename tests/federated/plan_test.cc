#include "federated/plan/plan.h"

#include <cmath>
#include <functional>
#include <map>

#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "engine/program/program.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/flat_names.h"
#include "federated/plan/flat_scope.h"
#include "federated/random/streams.h"
#include "federated/weights/model.h"
#include "proto/federated/plan.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;
using Overrides = std::vector<std::pair<std::string, std::string>>;

// Four pixels to three classes; weights drawn from the run's stream, biases zero, and an average that is shared.
ModelDef TinyModel(bool with_shared = false) {
  ModelDef model;
  Scope scope(model.graph);
  const Output image = scope.Placeholder("image", DType::kFloat32, {-1, 2, 2, 1});
  const Output label = scope.Placeholder("label", DType::kInt64, {-1});
  const auto handle = [&](const char* name, Shape shape, const char* segment) {
    return scope.Op("VarHandleOp", {},
                    {{"dtype", DType::kFloat32},
                     {"shape", shape},
                     {"shared_name", std::string(name)},
                     {"_segment", std::string(segment)}},
                    name);
  };
  const Output w = handle("w", {4, 3}, "trainable"), b = handle("b", {3}, "trainable");
  std::vector<Node*> assigned;
  const Output drawn = scope.Op("RandomStandardNormal", {scope.Const(Tensor::Of<int32_t>({2}, {4, 3}))},
                                {{"dtype", DType::kFloat32}}, "draw");
  assigned.push_back(scope.AddNode("AssignVariableOp", {w, drawn}, {{"dtype", DType::kFloat32}}));
  assigned.push_back(
      scope.AddNode("AssignVariableOp", {b, scope.Const(Tensor(DType::kFloat32, {3}))}, {{"dtype", DType::kFloat32}}));
  if (with_shared) {
    const Output mean = handle("mean", {5}, "shared");
    assigned.push_back(scope.AddNode("AssignVariableOp", {mean, scope.Const(Tensor(DType::kFloat32, {5}))},
                                     {{"dtype", DType::kFloat32}}));
  }
  scope.WithControl(assigned).AddNode("NoOp", {}, {}, "init");
  const auto read = [&](Output variable) {
    return scope.Op("ReadVariableOp", {variable}, {{"dtype", DType::kFloat32}});
  };
  const Output flat = scope.Op("Reshape", {image, scope.Const(Tensor::Of<int32_t>({2}, {-1, 4}))});
  const Output logits = scope.Op("BiasAdd", {scope.Op("MatMul", {flat, read(w)}), read(b)}, {}, "logits");
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  EXPECT_OK(scope.status());
  model.input = {"image", {DType::kFloat32, {-1, 2, 2, 1}}, FeatureEncoding::kUint8, 1.0 / 255.0};
  model.label = {"label", {DType::kInt64, {-1}}, FeatureEncoding::kInt64, 1, 3};
  model.classes = 3;
  model.train_loss = model.eval_loss = "loss";
  auto variables = VariablesOf(model.graph);
  EXPECT_OK(variables);
  model.variables = *std::move(variables);
  return model;
}

Scenario SomeScenario(const std::vector<std::pair<std::string, std::string>>& overrides = {}) {
  auto scenario = Scenario::Parse(R"(run = { name = "tiny", rounds = 3 }
model = { preset = "mlp" }
data = { train = "t", partition = { clients = 100 }, input_feature = "pixels" }
client = { epochs = 2, batch_size = 5, shuffle = false, optimizer = { learning_rate = 0.25 } }
server = { clients_per_round = 10 }
)",
                                  "tiny.toml", "/", overrides);
  EXPECT_OK(scenario);
  return *std::move(scenario);
}

std::string Built(const Scenario& scenario, const ModelDef& model) {
  auto bytes = BuildPlan(scenario, model);
  EXPECT_OK(bytes);
  return bytes.ok() ? *std::move(bytes) : "";
}

TEST(BuildPlan, Opens_AndSaysWhatTheScenarioSaid) {
  const std::string bytes = Built(SomeScenario(), TinyModel());
  const auto plan = Plan::Open(bytes);
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->bytes(), bytes);
  EXPECT_EQ((*plan)->digest(), Sha256Of(bytes));
  EXPECT_EQ((*plan)->name(), "tiny");
  EXPECT_EQ((*plan)->dataset(), "train");
  EXPECT_EQ((*plan)->flat_names().slots, 0);
  EXPECT_EQ((*plan)->program(TaskKind::kEvaluate), nullptr);
  const LocalProgram& training = (*plan)->training();
  EXPECT_EQ((*plan)->program(TaskKind::kTrain), &training);
  EXPECT_EQ(training.parts, (std::map<std::string, PartSource>{{"delta", {"params", "base_params", true}}}));
  ASSERT_EQ(training.passes.size(), 1u);
  EXPECT_EQ(training.passes[0].epochs, 2);
  EXPECT_EQ(training.passes[0].batch_size, 5);
  EXPECT_FALSE(training.passes[0].shuffle);
  EXPECT_EQ(training.passes[0].max_steps, 0);
  EXPECT_EQ((*plan)->layout()->parameters(), 15);
  EXPECT_EQ((*plan)->model().classes, 3);
  EXPECT_EQ((*plan)->model().input.placeholder, "image");
  EXPECT_EQ((*plan)->aggregation().Find("delta")->elements, 15);
  EXPECT_EQ((*plan)->aggregation().fraction_bits((*plan)->aggregation().parts[0]), 32);
  ASSERT_EQ((*plan)->features().size(), 2u);
  EXPECT_EQ((*plan)->features()[0].feature, "pixels");
  EXPECT_EQ((*plan)->features()[0].shape, (Shape{2, 2, 1}));
  EXPECT_EQ((*plan)->features()[0].scale, 1.0 / 255.0);
  EXPECT_EQ((*plan)->features()[1].encoding, FeatureSpec::Encoding::kInt64);
  EXPECT_EQ((*plan)->features()[1].upper_bound, 3);
}

TEST(BuildPlan, TheSameScenario_GivesTheSameBytes) {
  EXPECT_EQ(Built(SomeScenario(), TinyModel()), Built(SomeScenario(), TinyModel()));
  EXPECT_NE(Built(SomeScenario(), TinyModel()),
            Built(SomeScenario({{"client.optimizer.learning_rate", "0.5"}}), TinyModel()));
}

// ---- The local algorithm -------------------------------------------------------------------------------------------

const LocalPass& OnlyPass(const Plan& plan) {
  EXPECT_EQ(plan.training().passes.size(), 1u);
  return plan.training().passes[0];
}

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes()) {
    std::string op(node->type());
    if (op == "VarHandleOp") op += fmt::format(" {}{}", VariableName(*node), node->attr<Shape>("shape").ToString());
    ops.push_back(op);
  }
  return ops;
}

// The delta is a difference that is taken where it is used: no graph has anything to do for it.
TEST(LocalRule, Sgd_IsOneApplyOverFlatVariables) {
  const auto plan = Plan::Open(Built(SomeScenario(), TinyModel()));
  ASSERT_OK(plan);
  const LocalPass& pass = OnlyPass(**plan);
  // "w" has 48 bytes and "b" 12, each padded to 64: 32 elements.
  EXPECT_THAT(OpsOf(*pass.step),
              ::testing::UnorderedElementsAre("VarHandleOp params[32]", "VarHandleOp grads[32]", "ReadVariableOp",
                                              "Const", "ResourceApplyGradientDescent", "NoOp"));
  EXPECT_EQ(pass.begin, nullptr);
  EXPECT_EQ(pass.end, nullptr);
}

TEST(LocalRule, Momentum_HasASlotThatStartsAtZero) {
  const auto plan = Plan::Open(
      Built(SomeScenario({{"client.optimizer.kind", "momentum"}, {"client.optimizer.nesterov", "true"}}), TinyModel()));
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->flat_names().slots, 1);
  const LocalPass& pass = OnlyPass(**plan);
  EXPECT_THAT(OpsOf(*pass.step), ::testing::Contains("VarHandleOp slots/0[32]"));
  const Node* apply = nullptr;
  for (const auto& node : pass.step->nodes()) {
    if (node->type() == "ResourceApplyMomentum") apply = node.get();
  }
  ASSERT_NE(apply, nullptr);
  EXPECT_TRUE(apply->attr<bool>("use_nesterov"));
  EXPECT_EQ(apply->input(4).node->attr<Tensor>("value").flat<float>()[0], 0.9f);
  EXPECT_THAT(OpsOf(*pass.begin), ::testing::UnorderedElementsAre("VarHandleOp slots/0[32]", "ReadVariableOp",
                                                                  "ZerosLike", "AssignVariableOp", "NoOp"));
}

TEST(LocalRule, SharedVariables_TravelWithTheDelta) {
  const auto plan = Plan::Open(Built(SomeScenario(), TinyModel(true)));
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->aggregation().parts[0].elements, 20);
  EXPECT_TRUE((*plan)->training().parts.at("delta").shared_too);
}

TEST(FlatSpec, OtherNames_AreNotFound) {
  const auto plan = Plan::Open(Built(SomeScenario(), TinyModel()));
  ASSERT_OK(plan);
  const ModelLayout& layout = *(*plan)->layout();
  const FlatNames names = {.slots = 2,
                           .scalars = 1,
                           .update = {"dc"},
                           .broadcast = {"c"},
                           .numbers = {"mu"},
                           .measured = {"a/loss"},
                           .declared = {"which"}};
  for (const char* name : {"params", "base_params", "grads", "slots/1", "update/dc", "broadcast/c"}) {
    EXPECT_EQ(*FlatSpec(name, layout, names), (TensorSpec{DType::kFloat32, Shape{32}})) << name;
  }
  for (const char* name : {"scalars/0", "numbers/mu", "measured/a/loss", "declared/which"}) {
    EXPECT_EQ(*FlatSpec(name, layout, names), (TensorSpec{DType::kFloat64, Shape{}})) << name;
  }
  for (const char* name : {"round", "steps"}) {
    EXPECT_EQ(*FlatSpec(name, layout, {}), (TensorSpec{DType::kFloat64, Shape{}}));
  }
  for (const char* name : {"slots/2",    "slots/",     "slots/-1",    "slots/1x",  "shared",        "param",
                           "",           "grads/w",    "scalars/1",   "scalars/",  "update/",       "update/d",
                           "update/dc/", "broadcast/", "broadcast/d", "c",         "numbers/",      "numbers/m",
                           "mu",         "measured/a", "measured/",   "declared/", "declared/whic", "which"}) {
    EXPECT_THAT(FlatSpec(name, layout, names), StatusIs(absl::StatusCode::kNotFound)) << name;
  }
}

// ---- Plans from outside --------------------------------------------------------------------------------------------

struct Forgery {
  std::function<void(proto::Plan&)> forge;
  std::string message;
};

proto::PassDef& PassIn(proto::Plan& plan) { return *plan.mutable_programs(0)->mutable_passes(0); }
proto::PartDef& PartIn(proto::Plan& plan) { return *plan.mutable_aggregation()->mutable_parts(0); }

std::string OtherGraph(const std::function<void(Scope&)>& build) {
  Graph graph;
  Scope scope(graph);
  build(scope);
  EXPECT_OK(scope.status());
  return SerializeGraph(graph);
}

TEST(Open, ForgedPlans_AreRefusedInASentence) {
  const auto no_run = OtherGraph([](Scope& scope) { scope.AddNode("NoOp", {}, {}, "walk"); });
  const auto handle = [](const char* name, DType dtype, Shape shape) {
    return OtherGraph([&](Scope& scope) {
      scope.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", std::string(name)}}, "v");
      scope.AddNode("NoOp", {}, {}, "run");
    });
  };
  const auto writes = [](const char* name, Shape shape) {
    return OtherGraph([&](Scope& scope) {
      const Output v = scope.Op("VarHandleOp", {},
                                {{"dtype", DType::kFloat32}, {"shape", shape}, {"shared_name", std::string(name)}});
      scope.AddNode("AssignVariableOp", {v, scope.Const(Tensor(DType::kFloat32, shape))}, {{"dtype", DType::kFloat32}});
      scope.AddNode("NoOp", {}, {}, "run");
    });
  };
  const auto placeholder = OtherGraph([](Scope& scope) {
    scope.Placeholder("x", DType::kFloat32, {});
    scope.AddNode("NoOp", {}, {}, "run");
  });
  const std::vector<Forgery> forgeries = {
      {[](auto& p) { p.set_format(1); }, "the plan has format 1: it was built by an older program; build it again"},
      {[](auto& p) { p.set_format(5); }, "the plan has format 5, and this program reads 2 to 4"},
      {[](auto& p) { p.clear_name(); }, "the plan gives no name"},
      {[](auto& p) { p.set_name("a\nb"); }, "the plan's name has control characters"},
      {[](auto& p) { p.set_name(std::string(5000, 'x')); }, "the plan's name has 5000 bytes"},
      {[](auto& p) { p.mutable_model()->set_graph_def("nonsense"); }, "the plan's model graph: "},
      {[](auto& p) { p.mutable_model()->set_init_target("start"); }, "has no node 'start' to give its variables"},
      {[](auto& p) { p.mutable_model()->set_train_loss("nothing"); }, "the plan's training loss: "},
      {[](auto& p) { p.mutable_model()->set_eval_loss("logits"); },
       "the plan's evaluation loss 'logits' is float32[?,3]; it must be a float32 scalar"},
      {[](auto& p) { p.mutable_model()->set_train_loss("label"); }, "the plan's training loss 'label' is int64[?]"},
      {[](auto& p) {
         for (int i = 0; i < 2; ++i) {
           auto* metric = p.mutable_model()->add_metrics();
           metric->set_name("m");
           metric->set_tensor("loss");
         }
       },
       "the plan has two metrics named 'm'"},
      {[](auto& p) {
         auto* metric = p.mutable_model()->add_metrics();
         metric->set_name("loss");
         metric->set_tensor("loss");
       },
       "two metrics named 'loss'"},
      {[](auto& p) { p.mutable_model()->clear_variables(); }, "the plan lists 0 variables where its model graph has 2"},
      {[](auto& p) { p.mutable_model()->mutable_variables(0)->set_segment("frozen"); },
       "variable 0 is listed as frozen 'w'"},
      {[](auto& p) { p.mutable_model()->mutable_variables(0)->set_shape(0, 5); },
       "variable 0 is listed as trainable 'w' [5,3]"},
      {[](auto& p) { p.mutable_model()->mutable_variables(1)->set_name("c"); },
       "variable 1 is listed as trainable 'c'"},
      {[](auto& p) { p.mutable_model()->clear_features(); }, "the plan feeds its model from no feature"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_encoding("png"); },
       "feature 'pixels' of the plan has the encoding 'png'"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_placeholder("w"); },
       "the plan feeds feature 'pixels' to 'w', which is no placeholder"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_placeholder("label"); },
       "the plan feeds feature 'pixels' as float32 to placeholder 'label', which is int64"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_shape(0, 3); },
       "the plan feeds examples of shape [3,2,1] to placeholder 'image' of shape [?,2,2,1]"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_shape(0, -1); }, "feature 'pixels' of the plan: "},
      {[](auto& p) {
         auto* shape = p.mutable_model()->mutable_features(0)->mutable_shape();
         for (int i = 0; i < 3; ++i) shape->Set(i, int64_t{1} << 40);
       },
       "feature 'pixels' of the plan: "},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_scale(std::nan("")); },
       "feature 'pixels' of the plan is scaled by"},
      {[](auto& p) { p.mutable_model()->mutable_features(0)->set_upper_bound(2); }, "only int64 features have one"},
      {[](auto& p) { p.mutable_model()->mutable_features(1)->set_upper_bound(-1); }, "has the upper bound -1"},
      {[](auto& p) { *p.mutable_model()->add_features() = p.model().features(0); },
       "the plan feeds placeholder 'image' twice"},
      {[](auto& p) { p.mutable_flats()->set_slots(-1); }, "the plan asks for -1 slots"},
      {[](auto& p) { p.mutable_flats()->set_slots(1 << 30); }, "the plan asks for 1073741824 slots"},
      {[](auto& p) { p.mutable_flats()->set_scalars(65); }, "the plan asks for 65 scalars; a client has 0 to 64"},
      {[](auto& p) {
         for (int i = 0; i < 17; ++i) p.mutable_flats()->add_update(fmt::format("{}", i));
       },
       "the plan names 17 vectors to send; a client has up to 16"},
      {[](auto& p) {
         for (int i = 0; i < 2; ++i) p.mutable_flats()->add_update("dc");
       },
       "the plan names the vector to send 'dc' twice"},
      {[](auto& p) {
         for (int i = 0; i < 17; ++i) p.mutable_flats()->add_broadcast(fmt::format("{}", i));
       },
       "the plan has clients read 17 vectors beside the model; a client reads up to 16"},
      {[](auto& p) {
         for (int i = 0; i < 2; ++i) p.mutable_flats()->add_broadcast("c");
       },
       "the plan names the vector to read 'c' twice, or with a '/'"},
      {[](auto& p) {
         for (int i = 0; i < 65; ++i) p.mutable_flats()->add_numbers(fmt::format("{}", i));
       },
       "the plan has tasks with 65 numbers; a task has up to 64"},
      {[](auto& p) {
         for (int i = 0; i < 2; ++i) p.mutable_flats()->add_numbers("mu");
       },
       "the plan names the number 'mu' twice, or with a '/'"},
      {[](auto& p) {
         for (int i = 0; i < 17; ++i) p.mutable_flats()->add_measured(fmt::format("{}", i));
       },
       "the plan has 17 names of a number that graphs read; at most 16 are allowed"},
      {[](auto& p) { p.mutable_flats()->add_measured("a/loss"); },
       "the plan's graphs read 'measured/a/loss', and no pass reports 'a/loss'"},
      {[=](auto& p) {
         p.mutable_flats()->add_measured("train_loss");
         PassIn(p).set_step(writes("measured/train_loss", {}));
       },
       "the plan's step graph takes 'measured/train_loss' for float32[], and it is float64[]"},
      {[](auto& p) {
         for (int i = 0; i < 2; ++i) p.mutable_flats()->add_declared("which");
       },
       "the plan names the number that graphs declare 'which' twice"},
      {[](auto& p) { p.mutable_flats()->add_declared("train_loss"); },
       "the plan's graphs declare 'train_loss', which is declared already"},
      {[](auto& p) { p.mutable_flats()->add_declared("examples"); },
       "the plan's graphs declare 'examples', which is declared already"},
      {[](auto& p) { PartIn(p).mutable_only_where()->set_scalar("which"); }, "such a part is optional"},
      {[](auto& p) {
         PartIn(p).set_optional(true);
         PartIn(p).mutable_only_where()->set_scalar("which");
       },
       "the plan's part 'delta' is of updates that declare 'which', and its training declares none"},
      {[](auto& p) {
         p.mutable_flats()->add_broadcast("c");
         PassIn(p).mutable_models(0)->set_buffer("broadcast/c");
         PassIn(p).set_gradient_by("broadcast/c");
       },
       "a pass of the plan differentiates by 'broadcast/c', which can only be read"},
      {[](auto& p) { PassIn(p).mutable_models(0)->set_buffer("broadcast/c"); },
       "it can be run over params, base_params, client state, memory and broadcast vectors"},
      {[=](auto& p) {
         p.mutable_flats()->add_numbers("mu");
         PassIn(p).set_step(handle("numbers/mu", DType::kFloat32, {}));
       },
       "numbers/mu"},
      {[=](auto& p) {
         p.mutable_flats()->add_broadcast("c");
         PassIn(p).set_step(writes("broadcast/c", {32}));
       },
       "the plan's step graph gives 'broadcast/c', which can only be read, to AssignVariableOp"},
      {[=](auto& p) { PassIn(p).set_step(handle("steps", DType::kFloat64, {})); },
       "the plan's step graph uses 'steps', which are known only after the last one"},
      {[](auto& p) { p.mutable_flats()->add_update("d\nc"); },
       "the plan's name of a vector to send has control characters"},
      {[](auto& p) { p.clear_programs(); }, "the plan has no program to train with"},
      {[](auto& p) { p.mutable_programs(0)->set_kind(1); }, "the plan's program to evaluate has 1 parts"},
      {[](auto& p) { p.mutable_programs(0)->set_kind(7); }, "the plan has a program for tasks of kind 7"},
      {[](auto& p) { *p.add_programs() = p.programs(0); }, "the plan has two programs to train"},
      {[](auto& p) { p.mutable_programs(0)->clear_passes(); }, "the plan's program to train has 0 passes"},
      {[](auto& p) {
         for (int i = 0; i < 16; ++i) *p.mutable_programs(0)->add_passes() = p.programs(0).passes(0);
       },
       "the plan's program to train has 17 passes; a client does 1 to 16"},
      {[](auto& p) {
         *p.mutable_programs(0)->add_passes() = p.programs(0).passes(0);
         p.mutable_programs(0)->mutable_passes(1)->set_dataset("other");
       },
       "the plan's passes read the data sets 'train' and 'other'"},
      {[](auto& p) { PassIn(p).set_gradient_by("base_params"); },
       "a pass of the plan differentiates its loss by 'base_params', over which no instance of the model is"},
      {[](auto& p) { PassIn(p).set_step("x"); }, "the plan's step graph: "},
      {[](auto& p) { PassIn(p).clear_step(); }, "a pass of the plan does nothing with its gradients"},
      {[=](auto& p) { PassIn(p).set_end(no_run); }, "the plan's end graph has no node 'run'"},
      {[=](auto& p) { PassIn(p).set_begin(placeholder); }, "the plan's begin graph has a placeholder 'x'"},
      {[=](auto& p) { PassIn(p).set_step(handle("secrets", DType::kFloat32, {32})); },
       "the plan's step graph: 'secrets' is no flat variable of a plan with 0 slots"},
      {[=](auto& p) { PassIn(p).set_step(handle("slots/0", DType::kFloat32, {32})); },
       "'slots/0' is no flat variable of a plan with 0 slots"},
      {[=](auto& p) { PassIn(p).set_step(handle("params", DType::kFloat32, {33})); },
       "the plan's step graph takes 'params' for float32[33], and it is float32[32]"},
      {[=](auto& p) { PassIn(p).set_step(handle("params", DType::kInt32, {32})); }, "takes 'params' for int32[32]"},
      {[=](auto& p) { PassIn(p).set_end(handle("grads", DType::kFloat32, {32})); },
       "the plan's end graph uses 'grads', which only their step may use"},
      {[=](auto& p) { PassIn(p).set_step(writes("base_params", {32})); },
       "the plan's step graph gives 'base_params', which can only be read, to AssignVariableOp"},
      {[](auto& p) { PassIn(p).set_loss_scale("scalars/0"); }, "the plan's loss scale: 'scalars/0' is no flat"},
      {[](auto& p) { PassIn(p).set_loss_scale("params"); }, "the plan's loss scale 'params' is no scalar"},
      {[](auto& p) { PassIn(p).set_epochs(0); }, "the plan asks for 0 epochs"},
      {[](auto& p) { PassIn(p).set_batch_size(-5); }, "the plan asks for -5 examples in a batch"},
      {[](auto& p) { PassIn(p).set_max_steps(-1); }, "the plan asks for -1 steps"},
      {[](auto& p) { PassIn(p).clear_dataset(); }, "the plan gives no data set"},
      {[](auto& p) { p.mutable_programs(0)->mutable_parts(0)->clear_part(); }, "the plan gives no part"},
      {[](auto& p) { p.mutable_programs(0)->mutable_parts(0)->set_from("update/dc"); },
       "the plan's part 'delta': 'update/dc' is no flat variable"},
      {[](auto& p) { p.mutable_programs(0)->mutable_parts(0)->set_from("grads"); },
       "the plan's part 'delta' cannot be taken from 'grads'"},
      {[](auto& p) { p.mutable_programs(0)->mutable_parts(0)->set_less("round"); },
       "the plan's part 'delta' cannot be taken from 'round'"},
      {[](auto& p) { *p.mutable_programs(0)->add_parts() = p.programs(0).parts(0); },
       "the plan gives the source of part 'delta' twice"},
      {[](auto& p) { p.mutable_programs(0)->mutable_parts(0)->set_part("dc"); },
       "the plan's training gives 1 parts and its aggregation takes 1; they must be one and the same"},
      {[](auto& p) { PartIn(p).set_codec(""); }, "the plan gives no codec"},
      {[](auto& p) {
         for (int i = 0; i < 9; ++i) p.mutable_programs(0)->add_mechanisms()->set_name("clip");
       },
       "the plan has 9 mechanisms; a client carries out up to 8"},
      {[](auto& p) { p.mutable_programs(0)->add_mechanisms(); }, "the plan gives no mechanism"},
      {[](auto& p) { p.mutable_flats()->add_state("a/b"); }, "the vector to keep 'a/b' twice, or with a '/'"},
      {[](auto& p) { p.mutable_flats()->add_state_from_base("x"); }, "gives a start of 'x', which no client keeps"},
      {[](auto& p) { PartIn(p).set_elements(16); },
       "the plan states 16 elements of part 'delta' where its training gives 15"},
      {[](auto& p) { PartIn(p).set_fraction_bits(31); }, "the plan states 31 fraction bits where its bounds give 32"},
      {[](auto& p) { PartIn(p).set_value_bits(99); }, "the plan's aggregation: server.value_bits = 99"},
      {[](auto& p) { PartIn(p).set_weigh("steps"); }, "the plan's aggregation: part 'delta' is weighed by 'steps'"},
      {[](auto& p) { p.mutable_aggregation()->set_max_weight(0); }, "the plan's aggregation: server.max_weight = 0"},
      {[](auto& p) { p.mutable_aggregation()->set_updates_per_version(-1); },
       "the plan's aggregation: -1 updates per version (server.clients_per_round)"},
      {[](auto& p) { PartIn(p).set_sum_bits(48); }, "the plan's aggregation: sums of 48 bits"},
      {[](auto& p) { PartIn(p).mutable_denominator()->set_kind(256); },
       "divides part 'delta' by the unknown denominator 256"},
      {[](auto& p) { PartIn(p).mutable_denominator()->set_kind(3); },
       "part 'delta' is divided by the sum of the scalar '', which the plan does not sum"},
      {[](auto& p) { p.mutable_aggregation()->add_scalars()->set_name("loss"); }, "scalar 'loss' is weighed by ''"},
      {[](auto& p) { p.mutable_aggregation()->set_staleness_bits(3); }, "a factor of 3 bits for staleness"},
      {[](auto& p) { p.mutable_aggregation()->set_weight_fraction_bits(29); }, "server.weight_fraction_bits = 29"},
      {[](auto& p) { p.mutable_aggregation()->clear_rule(); }, "the plan gives no aggregation rule"},
      {[](auto& p) { p.mutable_aggregation()->clear_parts(); }, "the plan's training gives 1 parts"},
      {[](auto& p) { p.set_kernels("gpu"); }, "the plan asks for kernels 'gpu'"},
  };
  const std::string bytes = Built(SomeScenario(), TinyModel());
  for (const Forgery& forgery : forgeries) {
    proto::Plan message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    forgery.forge(message);
    const auto plan = Plan::Open(message.SerializeAsString());
    EXPECT_THAT(plan, ::testing::Not(::rivulet::testing::IsOk())) << forgery.message;
    EXPECT_THAT(Message(plan.status()), ::testing::AllOf(HasSubstr(forgery.message), ::testing::Not(HasSubstr("\n"))));
  }
}

TEST(Open, NoPlanAtAll_IsDataLoss) {
  EXPECT_THAT(Plan::Open("\xff\xff"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Message(Plan::Open("").status()),
            "the plan has format 0, and this program reads 2 to 4: update the older side");
}

TEST(Open, CutAnywhere_NeverCrashes) {
  const std::string bytes = Built(SomeScenario(), TinyModel());
  for (size_t length = 0; length < bytes.size(); length += 3) {
    EXPECT_THAT(Plan::Open(bytes.substr(0, length)), ::testing::Not(::rivulet::testing::IsOk())) << length;
  }
}

// ---- Plans that cannot be built ------------------------------------------------------------------------------------

TEST(BuildPlan, UnfitModels_AreRefused) {
  const auto error = [](auto change) {
    ModelDef model = TinyModel();
    change(model);
    return testing::ErrorOf(BuildPlan(SomeScenario(), model));
  };
  EXPECT_EQ(error([](auto& m) { m.input.spec.dtype = DType::kFloat64; }),
            "placeholder 'image' is float64; uint8 features are fed as float32");
  EXPECT_EQ(error([](auto& m) {
              m.input.spec.shape = Shape{-1, -1, 4};
            }),
            "placeholder 'image' has shape [?,?,4]; only its batch dimension may be open");
  EXPECT_EQ(error([](auto& m) { m.label.spec.shape = Shape{}; }),
            "placeholder 'label' has shape []; it needs a batch dimension first");
  EXPECT_EQ(error([](auto& m) { m.label.spec.dtype = DType::kFloat32; }),
            "placeholder 'label' is float32; int64 features are fed as int64");
  EXPECT_EQ(error([](auto& m) { m.label.encoding = FeatureEncoding::kFloat; }),
            "placeholder 'label' is int64; float features are fed as float32");
  EXPECT_EQ(error([](auto& m) { m.label.encoding = FeatureEncoding::kUint8; }),
            "placeholder 'label' takes uint8 features; labels are integers or floats");
  EXPECT_EQ(error([](auto& m) { m.variables.clear(); }),
            "the model has no trainable variable with elements, so there is nothing to learn");
  EXPECT_THAT(error([](auto& m) { m.train_loss = "perte"; }), HasSubstr("the plan's training loss: "));
}

// Before a client gets the plan: each would try it and fail.
TEST(BuildPlan, StepThatNoClientCouldCompile_IsRefused) {
  const auto error = [](auto loss_of) {
    ModelDef model = TinyModel();
    Scope scope(model.graph);
    const Output logits = model.graph.Find("logits")->output();
    loss_of(scope, logits);
    EXPECT_OK(scope.status());
    model.train_loss = "own_loss";
    return testing::ErrorOf(BuildPlan(SomeScenario(), model));
  };
  const auto axes = [](const Scope& s) { return s.Const(Tensor::Of<int32_t>({2}, {0, 1})); };
  EXPECT_EQ(error([](const Scope& s, Output logits) {
              const Output indices = s.Placeholder("axes", DType::kInt32, Shape::UnknownRank());
              s.Op("Mean", {logits, indices}, {}, "own_loss");
            }),
            "the plan's training step at batch size 5: the loss 'own_loss' must be a floating scalar, but is "
            "float32<unknown>; reduce it with Mean or Sum");
  EXPECT_THAT(error([&](const Scope& s, Output logits) {
                s.Op("Mean", {s.Op("Digamma", {logits}, {}, "psi"), axes(s)}, {}, "own_loss");
              }),
              HasSubstr("the plan's training step at batch size 5: Digamma 'psi'"));
  EXPECT_THAT(error([&](const Scope& s, Output logits) {
                const Output six = s.Op("Reshape", {logits, s.Const(Tensor::Of<int32_t>({2}, {-1, 6}))}, {}, "six");
                s.Op("Mean", {six, axes(s)}, {}, "own_loss");
              }),
              HasSubstr("Reshape 'six'"));
}

// The axes of the second are a range whose values are found at run time alone; that there are none is known.
TEST(BuildPlan, LossReducedTwice_IsAScalar) {
  ModelDef model = TinyModel();
  Scope scope(model.graph);
  const Output once =
      scope.Op("Mean", {model.graph.Find("logits")->output(), scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))});
  const Output none = scope.Op("Range", {scope.Const(Tensor::Scalar<int32_t>(0)), scope.Op("Rank", {once}),
                                         scope.Const(Tensor::Scalar<int32_t>(1))});
  scope.Op("Mean", {once, none}, {}, "own_loss");
  ASSERT_OK(scope.status());
  model.train_loss = "own_loss";
  EXPECT_OK(BuildPlan(SomeScenario(), model));
}

TEST(BuildPlan, VariableWithTheNameOfAFlatOne_IsRefused) {
  ModelDef model = TinyModel();
  Scope scope(model.graph);
  const Output mine =
      scope.Op("VarHandleOp", {},
               {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("base_params")}});
  scope.AddNode("AssignVariableOp", {mine, scope.Const(Tensor(DType::kFloat32, {2}))}, {{"dtype", DType::kFloat32}});
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(model.variables, VariablesOf(model.graph));
  EXPECT_EQ(testing::ErrorOf(BuildPlan(SomeScenario(), model)),
            "the model has a variable 'base_params', which is the name of a flat variable; rename it");
}

TEST(BuildPlan, TooFewBits_NamesTheKeys) {
  const auto bytes =
      BuildPlan(SomeScenario({{"server.value_bits", "30"}, {"server.max_weight", "536870911"}}), TinyModel());
  EXPECT_THAT(std::string(Message(bytes.status())), HasSubstr("server.value_bits = 30, server.max_weight = 536870911"));
}

// ---- The graphs run ------------------------------------------------------------------------------------------------

// The buffers that a client binds, by the names of the flat variables.
class FlatBuffers {
 public:
  explicit FlatBuffers(const Plan& plan) : plan_(plan) {}

  std::span<float> operator[](const std::string& name) {
    const auto spec = FlatSpec(name, *plan_.layout(), plan_.flat_names());
    EXPECT_OK(spec);
    const auto elements = static_cast<size_t>(spec->shape.elements());
    auto [at, added] = memory_.try_emplace(name, elements * SizeOf(spec->dtype));
    return {reinterpret_cast<float*>(at->second.data()), elements};
  }
  double& number(const std::string& name) { return *reinterpret_cast<double*>((*this)[name].data()); }

  // Null: nothing to do.
  void Run(const std::shared_ptr<const Graph>& graph) {
    if (graph != nullptr) Run(*graph);
  }

  void Run(const Graph& graph) {
    Signature signature;
    signature.targets = {kRunTarget};
    std::vector<Buffer> buffers;
    for (const auto& node : graph.nodes()) {
      if (node->type() != "VarHandleOp") continue;
      const std::string name(VariableName(*node));
      const std::span<float> memory = (*this)[name];
      signature.variables.push_back(
          {name, static_cast<int>(buffers.size()), 0, *FlatSpec(name, *plan_.layout(), plan_.flat_names())});
      buffers.push_back({reinterpret_cast<std::byte*>(memory.data()), DType::kFloat32, 0});
    }
    const auto program = CompileProgram(graph, signature);
    ASSERT_OK(program);
    const auto instance = (*program)->Instantiate();
    ASSERT_OK(instance);
    AlignedBuffer arena((*program)->memory().arena_bytes);
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.buffers = buffers;
    const Status status = (*instance)->Run(bindings);
    ASSERT_OK(status);
  }

 private:
  const Plan& plan_;
  std::map<std::string, AlignedBuffer> memory_;
};

TEST(LocalRule, Sgd_TwoStepsByHand) {
  const auto plan = Plan::Open(Built(SomeScenario(), TinyModel(true)));
  ASSERT_OK(plan);
  FlatBuffers buffers(**plan);
  buffers["params"][2] = 1.0f;
  buffers.Run(OnlyPass(**plan).begin);
  buffers["grads"][2] = 2.0f;
  buffers.Run(OnlyPass(**plan).step);  // 1 − 0.25 · 2
  EXPECT_EQ(buffers["params"][2], 0.5f);
  buffers["grads"][2] = -4.0f;
  buffers.Run(OnlyPass(**plan).step);  // 0.5 + 0.25 · 4
  EXPECT_EQ(buffers["params"][2], 1.5f);
  EXPECT_EQ(buffers["params"][31], 0.0f);  // padding stays zero
}

TEST(LocalRule, Momentum_TwoStepsByHand) {
  for (const bool nesterov : {false, true}) {
    const auto plan = Plan::Open(Built(SomeScenario({{"client.optimizer.kind", "momentum"},
                                                     {"client.optimizer.momentum", "0.5"},
                                                     {"client.optimizer.nesterov", nesterov ? "true" : "false"}}),
                                       TinyModel()));
    ASSERT_OK(plan);
    FlatBuffers buffers(**plan);
    for (float& left_over : buffers["slots/0"]) left_over = std::nanf("");  // of the task before
    buffers.Run(OnlyPass(**plan).begin);
    for (const float slot : buffers["slots/0"]) ASSERT_EQ(slot, 0.0f);
    buffers["grads"][0] = 4.0f;
    buffers.Run(OnlyPass(**plan).step);
    EXPECT_EQ(buffers["slots/0"][0], 4.0f);
    EXPECT_EQ(buffers["params"][0], nesterov ? -1.5f : -1.0f);  // 0.25 · (4 + 0.5 · 4), or 0.25 · 4
    buffers.Run(OnlyPass(**plan).step);
    EXPECT_EQ(buffers["slots/0"][0], 6.0f);
    EXPECT_EQ(buffers["params"][0], nesterov ? -1.5f - 1.75f : -2.5f);
  }
}

// One element, as the papers have it, in float64.
struct Element {
  double w = 1, first = 0, second = 0, third = 0;
};
struct RuleCase {
  std::string kind;
  Overrides with;
  std::function<void(Element&, double g, int t)> step;  // t from 1; learning rate 0.25
  Element start = {};
};

std::vector<RuleCase> RuleCases() {
  const auto adam = [](double decay, double epsilon) {
    return [=](Element& e, double g, int t) {
      e.w *= 1 - 0.25 * decay;
      e.first = 0.9 * e.first + 0.1 * g;
      e.second = 0.999 * e.second + 0.001 * g * g;
      const double m = e.first / (1 - std::pow(0.9, t)), v = e.second / (1 - std::pow(0.999, t));
      e.w -= 0.25 * m / (std::sqrt(v) + epsilon);
    };
  };
  const auto rmsprop = [](double momentum, bool centered) {
    return [=](Element& e, double g, int) {
      e.first = 0.9 * e.first + 0.1 * g * g;
      e.second = 0.9 * e.second + 0.1 * g;
      e.third = momentum * e.third + 0.25 * g / std::sqrt(e.first - (centered ? e.second * e.second : 0) + 1e-7);
      e.w -= e.third;
    };
  };
  return {
      {"sgd", {}, [](Element& e, double g, int) { e.w -= 0.25 * g; }},
      {"sgd",
       {{"client.optimizer.weight_decay", "0.5"}},
       [](Element& e, double g, int) { e.w -= 0.25 * (g + 0.5 * e.w); }},
      {"sgd",
       {{"client.optimizer.clip_value", "1.5"}},
       [](Element& e, double g, int) { e.w -= 0.25 * std::clamp(g, -1.5, 1.5); }},
      // The gradient is g in two elements: their norm is √2 · |g|.
      {"sgd",
       {{"client.optimizer.clip_norm", "2"}},
       [](Element& e, double g, int) { e.w -= 0.25 * g * std::min(1.0, 2 / (std::sqrt(2.0) * std::abs(g))); }},
      {"momentum",
       {{"client.optimizer.weight_decay", "0.5"}},
       [](Element& e, double g, int) {
         e.first = 0.9 * e.first + g + 0.5 * e.w;
         e.w -= 0.25 * e.first;
       }},
      {"adagrad",
       {{"client.optimizer.initial_accumulator", "0.5"}},
       [](Element& e, double g, int) {
         e.first += g * g;
         e.w -= 0.25 * g / (std::sqrt(e.first) + 1e-10);
       },
       {1, 0.5}},
      {"rmsprop", {}, rmsprop(0, false)},
      {"rmsprop", {{"client.optimizer.momentum", "0.5"}, {"client.optimizer.centered", "true"}}, rmsprop(0.5, true)},
      {"adam", {}, adam(0, 1e-8)},
      {"adam", {{"client.optimizer.epsilon", "0.5"}}, adam(0, 0.5)},
      {"adamw", {}, adam(0.01, 1e-8)},
      {"adadelta",
       {},
       [](Element& e, double g, int) {
         e.first = 0.9 * e.first + 0.1 * g * g;
         const double step = std::sqrt(e.second + 1e-6) / std::sqrt(e.first + 1e-6) * g;
         e.second = 0.9 * e.second + 0.1 * step * step;
         e.w -= 0.25 * step;
       }},
      {"yogi",
       {},
       [](Element& e, double g, int t) {
         e.first = 0.9 * e.first + 0.1 * g;
         e.second -= 0.001 * (e.second > g * g ? 1 : -1) * g * g;
         const double rate = 0.25 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
         e.w -= rate * e.first / (std::sqrt(e.second) + 1e-3 * std::sqrt(1 - std::pow(0.999, t)));
       },
       {1, 0, 1e-6}},
  };
}

TEST(LocalRule, EveryKind_ThreeStepsAreTheFormula) {
  for (const RuleCase& rule : RuleCases()) {
    Overrides settings = rule.with;
    settings.emplace_back("client.optimizer.kind", rule.kind);
    SCOPED_TRACE(rule.kind + (rule.with.empty() ? "" : " " + rule.with[0].first));
    const auto plan = Plan::Open(Built(SomeScenario(settings), TinyModel()));
    ASSERT_OK(plan);
    FlatBuffers buffers(**plan);
    Element element = rule.start;
    buffers["params"][0] = buffers["params"][20] = static_cast<float>(element.w);
    for (int task = 0; task < 2; ++task) {  // the second begins like the first
      buffers.Run(OnlyPass(**plan).begin);
      element = {element.w, rule.start.first, rule.start.second, rule.start.third};
      int t = 0;
      for (const float gradient : {2.0f, -0.75f, 0.5f}) {
        buffers["grads"][0] = buffers["grads"][20] = gradient;
        buffers.Run(OnlyPass(**plan).step);
        rule.step(element, gradient, ++t);
        EXPECT_NEAR(buffers["params"][0], element.w, 3e-6 * std::max(1.0, std::abs(element.w))) << "step " << t;
        EXPECT_EQ(buffers["params"][20], buffers["params"][0]);
        EXPECT_EQ(buffers["params"][31], 0.0f);  // padding
      }
    }
  }
}

TEST(LocalRule, BadSettings_AreRefusedByTheirKey) {
  EXPECT_THAT(std::string(Message(BuildPlan(
                                      [] {
                                        Scenario scenario = SomeScenario();
                                        scenario.client.optimizer.kind = "adm";
                                        return scenario;
                                      }(),
                                      TinyModel())
                                      .status())),
              HasSubstr("client.optimizer.kind: there is no optimizer 'adm'. Did you mean 'adam'?"));
}

// ---- Learning rates ------------------------------------------------------------------------------------------------

struct ScheduleCase {
  std::string name;
  Overrides with;
  std::function<double(double t)> share;  // of the learning rate
};

std::vector<ScheduleCase> ScheduleCases() {
  const double pi = std::acos(-1.0);
  return {
      {"constant", {{"client.schedule.warmup", "4"}}, [](double t) { return std::min(1.0, (t + 1) / 4); }},
      {"step",
       {{"client.schedule.length", "3"}, {"client.schedule.decay_rate", "0.1"}},
       [](double t) { return std::pow(0.1, std::floor(t / 3)); }},
      {"exponential",
       {{"client.schedule.length", "3"}, {"client.schedule.decay_rate", "0.5"}, {"client.schedule.warmup", "2"}},
       [](double t) { return t < 2 ? (t + 1) / 2 : std::pow(0.5, (t - 2) / 3); }},
      {"cosine",
       {{"client.schedule.length", "8"}, {"client.schedule.end", "0.25"}},
       [=](double t) { return 0.25 + 0.75 * (1 + std::cos(pi * std::min(1.0, t / 8))) / 2; }},
      {"polynomial", {{"client.schedule.length", "8"}}, [](double t) { return 1 - std::min(1.0, t / 8); }},
      {"polynomial",
       {{"client.schedule.length", "8"}, {"client.schedule.power", "2.5"}, {"client.schedule.end", "0.1"}},
       [](double t) { return 0.1 + 0.9 * std::pow(1 - std::min(1.0, t / 8), 2.5); }},
  };
}

TEST(Schedule, EveryKind_IsTheFormulaByRoundAndByStep) {
  for (const ScheduleCase& schedule : ScheduleCases()) {
    for (const std::string unit : {"round", "step"}) {
      SCOPED_TRACE(schedule.name + " by " + unit);
      Overrides settings = schedule.with;
      settings.emplace_back("client.schedule.kind", schedule.name);
      settings.emplace_back("client.schedule.unit", unit);
      const auto plan = Plan::Open(Built(SomeScenario(settings), TinyModel()));
      ASSERT_OK(plan);
      FlatBuffers buffers(**plan);
      buffers["grads"][0] = 1;
      buffers.number("round") = 0;
      buffers.Run(OnlyPass(**plan).begin);
      for (int t = 0; t < 12; ++t) {
        if (unit == "round") {
          buffers.number("round") = t;
          buffers.Run(OnlyPass(**plan).begin);
        }
        buffers["params"][0] = 0;
        buffers.Run(OnlyPass(**plan).step);
        EXPECT_FLOAT_EQ(-buffers["params"][0], static_cast<float>(0.25 * schedule.share(t))) << "t = " << t;
      }
    }
  }
}

TEST(Schedule, LengthNotGiven_IsTheRunsRounds) {
  const auto length = [](const Scenario& scenario) { return scenario.client.schedule.settings.at("length"); };
  EXPECT_EQ(length(SomeScenario({{"client.schedule.kind", "cosine"}})), SettingValue(int64_t{3}));
  EXPECT_EQ(length(SomeScenario({{"client.schedule.kind", "cosine"}, {"client.schedule.length", "9"}})),
            SettingValue(int64_t{9}));
}

// ---- First values --------------------------------------------------------------------------------------------------

TEST(InitialModel, ComesFromTheSeedAlone) {
  const auto plan = Plan::Open(Built(SomeScenario(), TinyModel()));
  ASSERT_OK(plan);
  const auto model = InitialModel(**plan, 7);
  ASSERT_OK(model);
  EXPECT_EQ((*model)->ComputeDigest(), (*InitialModel(**plan, 7))->ComputeDigest());
  EXPECT_NE((*model)->ComputeDigest(), (*InitialModel(**plan, 8))->ComputeDigest());
  double squares = 0;
  for (const float w : (*model)->tensor(*(*plan)->layout()->Find("w")).flat<float>()) squares += w * w;
  EXPECT_GT(squares, 0.5);
  for (const float b : (*model)->tensor(*(*plan)->layout()->Find("b")).flat<float>()) EXPECT_EQ(b, 0.0f);
}

}  // namespace
}  // namespace rivulet
