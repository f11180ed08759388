// Rules of one's own in whole rounds: those that write down what an algorithm does have its bits; what would leave the
// padding other than zero does not; and what fits neither the algorithm nor a rule is refused.
#include "federated/local_rules/own_rule.h"

#include "engine/base/file_system.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "federated/local_rules/rule_graph.h"
#include "tests/federated/algorithms/pixel_rounds.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::PixelRounds;
using ::rivulet::testing::PixelScenario;
using ::rivulet::testing::RunPixels;
using ::testing::HasSubstr;

class OwnRules : public ::testing::Test {
 protected:
  // A scenario whose clients follow `text`.
  Scenario Following(const std::string& text, const std::string& algorithm = "fedavg") {
    auto graph = BuildRule(text);
    EXPECT_OK(graph);
    return With(SerializeGraph(*graph), algorithm);
  }
  Scenario With(const std::string& bytes, const std::string& algorithm = "fedavg") {
    Scenario scenario = PixelScenario(algorithm);
    scenario.algorithm.graph = folder_.File("rule.pb");
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), scenario.algorithm.graph, bytes));
    return scenario;
  }
  static std::string Example(const std::string& name) {
    auto text = FileSystem::Default().ReadAll(RIVULET_SOURCE_DIR "/tests/docs/local_rules/" + name);
    EXPECT_OK(text);
    return *text;
  }
  static std::vector<std::string> Versions(const Scenario& scenario) {
    const auto run = RunPixels(scenario, 3);
    EXPECT_OK(run);
    return run->versions;
  }

  testing::TempFolder folder_;
};

TEST_F(OwnRules, FedProxAsARule_IsFedProxToTheBit) {
  for (const char* kernels : {"native", "portable"}) {
    for (const double mu : {0.1, 0.7}) {
      SCOPED_TRACE(fmt::format("{} {}", kernels, mu));
      Scenario prox = PixelScenario("fedprox");
      prox.algorithm.settings["mu"] = mu;
      prox.run.kernels = kernels;
      const std::vector<std::string> versions = Versions(prox);
      for (const char* example : {"fedprox.txt", "proximal_loss.txt"}) {
        Scenario own = Following(Example(example));
        own.run.kernels = kernels;
        if (mu != 0.1) own.algorithm.settings["mu"] = mu;
        EXPECT_EQ(Versions(own), versions) << example;
      }
    }
  }
}

TEST_F(OwnRules, NothingOfItsOwn_IsFederatedAveragingToTheBit) {
  EXPECT_EQ(Versions(Following("gradient = grad\n")), Versions(PixelScenario("fedavg")));
  EXPECT_EQ(Versions(Following("mu = 0\ngradient = grad + mu * (params - base)\n")), Versions(PixelScenario("fedavg")));
}

TEST_F(OwnRules, ScaffoldAsARule_IsScaffoldToTheBit) {
  for (const char* kernels : {"native", "portable"}) {
    Scenario scaffold = PixelScenario("scaffold"), own = Following(Example("scaffold.txt"), "scaffold");
    scaffold.run.kernels = own.run.kernels = kernels;
    EXPECT_EQ(Versions(own), Versions(scaffold)) << kernels;
  }
}

TEST_F(OwnRules, MomentumAsARule_IsTheOptimisersToTheBit) {
  Scenario momentum = PixelScenario("fedavg");
  momentum.client.optimizer.kind = "momentum";
  momentum.client.optimizer.settings["momentum"] = 0.75;
  momentum.run.kernels = "portable";
  Scenario own = Following("beta = 0.75\nmemory.m = beta * memory.m + grad\ngradient = memory.m\n");
  own.run.kernels = "portable";
  EXPECT_EQ(Versions(own), Versions(momentum));
  // A server's step of its own is nobody's business here.
  Scenario adam = Following("beta = 0.75\nmemory.m = beta * memory.m + grad\ngradient = memory.m\n", "fedadam");
  EXPECT_NE(Versions(adam), Versions(own));
}

// Each of 2 clients does ceil(examples / 2) steps an epoch of batches of 2, of weights w; what it kept is by hand.
TEST_F(OwnRules, WhatIsAssignedAtTheEnd_SeesTheStepsTheRoundAndTheRate) {
  Scenario own =
      Following("gradient = 0 * grad\nend:\nstate.s = (params + 1) * (steps + 10 * round) / learning_rate\n");
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(own, 2));
  const ModelLayout& layout = *run.plan->layout();
  std::vector<float> kept(layout.trained_bytes() / sizeof(float));
  ASSERT_OK(ReadState(run.kept.at(2), std::vector<NamedState>{{"s", kept}}));
  const auto base = testing::FourPixelsBase(*run.plan);
  const Slice& bias = *layout.Find("b");
  for (size_t k = 0; k < 3; ++k) {
    const float weight = base->tensor(bias).flat<float>()[k];
    EXPECT_FLOAT_EQ(kept[bias.offset / sizeof(float) + k], (weight + 1) * (4 + 10) / 0.5f);
  }
}

TEST_F(OwnRules, WhatIsNotZeroInThePadding_IsMadeSo) {
  for (const char* text :
       {"end:\nstate.s = params - params + 1\n", "end:\nstate.s = exp(params)\n", "end:\nstate.s = params / params\n",
        "state.s = grad ^ 0\ngradient = grad + 1\n", "end:\nstate.s = params * 0 + sum(exp(params - params))\n",
        "loss = loss + sum(params * 3)\nstate.s = grad / grad\n"}) {
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(Following(text), 1));
    const ModelLayout& layout = *run.plan->layout();
    std::vector<float> kept(layout.trained_bytes() / sizeof(float));
    ASSERT_OK(ReadState(run.kept.at(0), std::vector<NamedState>{{"s", kept}}));
    std::vector<bool> inside(kept.size());
    for (const Slice& slice : layout.slices()) {
      const size_t first = slice.offset / sizeof(float);
      std::fill_n(inside.begin() + static_cast<ptrdiff_t>(first), slice.elements, true);
      EXPECT_NE(kept[first], 0) << slice.name;
    }
    ASSERT_EQ(std::ranges::count(inside, true), 15);
    ASSERT_GT(kept.size(), 15u) << "there is padding";
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(inside[i] || kept[i] == 0) << i << ": " << kept[i];
    const bool counts = std::string_view(text).find("sum(exp") != std::string_view::npos;
    if (counts) {
      EXPECT_EQ(kept[0], 15) << "a sum is of the elements alone";
    }
  }
}

// What is added to the loss is differentiated: here by hand.
TEST_F(OwnRules, WhatIsAddedToTheLoss_AddsItsGradient) {
  const std::pair<const char*, const char*> same[] = {
      {"loss = loss + sum(params * base)\n", "gradient = grad + base\n"},
      {"loss = loss - 0.5 * sum(params ^ 2)\n", "gradient = grad - params\n"},
      {"loss = loss + sum(where(params > 0, params, 0))\n", "gradient = grad + where(params > 0, 1, 0)\n"},
      {"loss = loss + dot(params, params) / 2\ngradient = 2 * grad\n", "gradient = 2 * (grad + params)\n"},
      {"a = 3\nloss = loss + a * sum(tanh(params))\n", "a = 3\ngradient = grad + a * (1 - tanh(params) ^ 2)\n"},
  };
  for (const auto& [loss, gradient] : same) {
    ASSERT_OK_AND_ASSIGN(const PixelRounds by_loss, RunPixels(Following(loss), 1));
    ASSERT_OK_AND_ASSIGN(const PixelRounds by_hand, RunPixels(Following(gradient), 1));
    const std::vector<float> found = testing::WeightsOfModel(*by_loss.server.model);
    const std::vector<float> wanted = testing::WeightsOfModel(*by_hand.server.model);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], 1e-5 * std::abs(wanted[i]) + 1e-6) << loss;
    EXPECT_NE(by_loss.versions[0], Versions(PixelScenario("fedavg"))[0]) << loss;
  }
}

TEST_F(OwnRules, Plan_SaysItAllAndAServerNeedsNoFile) {
  Scenario own = Following(Example("scaffold.txt"), "scaffold");
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(own, testing::FourPixels()));
  EXPECT_EQ(plan->flat_names().state, std::vector<StateVector>{{.name = "c"}});
  own.algorithm.graph = folder_.File("nowhere.pb");
  EXPECT_OK(Compose(own, *plan->layout()));
  EXPECT_THAT(ErrorOf(ComposePlan(own, testing::FourPixels())), HasSubstr("algorithm.graph"));
}

TEST_F(OwnRules, WhatFitsNotTheAlgorithm_IsRefusedWithWhatDoes) {
  const auto refusal = [](const Scenario& scenario) { return ErrorOf(ComposePlan(scenario, testing::FourPixels())); };
  const std::string prox = Example("fedprox.txt");
  EXPECT_THAT(refusal(Following("a = 1\ngradient = a * grad\n", "fedprox")),
              HasSubstr("fedprox defines the clients' training"));
  EXPECT_THAT(refusal(Following("a = 1\ngradient = a * grad\n", "ditto")), HasSubstr("defines the clients' training"));
  EXPECT_THAT(refusal(Following("beta = 1\ngradient = beta * grad\n", "fedavgm")),
              HasSubstr("its setting 'beta' is an option of fedavgm too"));
  EXPECT_THAT(refusal(Following(Example("scaffold.txt"))),
              HasSubstr("it reads broadcast.c, and the server of fedavg sends nothing beside the model"));
  EXPECT_THAT(refusal(Following("gradient = grad\n", "scaffold")),
              HasSubstr("clients of scaffold send 'dc', which it does not write"));
  EXPECT_THAT(refusal(Following("end:\nupdate.u = params\n")), HasSubstr("the server of fedavg does not take"));
  Scenario unknown = Following(prox);
  unknown.algorithm.settings["mo"] = 0.1;
  EXPECT_THAT(refusal(unknown), HasSubstr("[algorithm] gives 'mo', which is no option of fedavg and no setting of the "
                                          "rule. Did you mean 'mu'?"));
  Scenario late = Following("end:\nstate.s = params\n");
  late.server.base = "latest";
  EXPECT_THAT(refusal(late), HasSubstr("server.base is \"latest\", and its clients keep 's'"));
  Scenario moving = Following("gradient = grad * learning_rate\n");
  moving.client.schedule.kind = "cosine";
  moving.client.schedule.settings["length"] = int64_t{3};
  EXPECT_THAT(refusal(moving), HasSubstr("it reads learning_rate, which client.schedule moves"));
  EXPECT_THAT(refusal(With("")), HasSubstr("is empty; write the rule into it"));
  EXPECT_THAT(refusal(With("junk")), HasSubstr("rule.pb"));
}

// Graphs that no text is: from other programs.
TEST_F(OwnRules, GraphsOfOthers_AreRefusedByNode) {
  const auto open = [](const auto& build) {
    Graph graph;
    Scope scope(graph);
    build(scope);
    EXPECT_OK(scope.status());
    return ErrorOf(OwnRule::Open(SerializeGraph(graph)));
  };
  const auto variable = [](const Scope& scope, const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    return scope.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", std::move(shape)}, {"shared_name", name}}, name);
  };
  const auto read = [](const Scope& scope, Output handle) {
    return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  };
  EXPECT_THAT(open([&](const Scope& scope) {
                const Output grads = read(scope, variable(scope, "grads", {kUnknownDim}));
                scope.Op("Softmax", {grads}, {}, "gradient");
              }),
              HasSubstr("the rule has a Softmax 'gradient'; a rule is made of variables, constants and Abs"));
  EXPECT_THAT(open([&](const Scope& scope) {
                scope.Op("Identity", {read(scope, variable(scope, "grads", {7}))}, {}, "gradient");
              }),
              HasSubstr("takes 'grads' for float32[7], and it is float32[?]"));
  EXPECT_THAT(open([&](const Scope& scope) {
                scope.Op("Identity", {read(scope, variable(scope, "slots/0", {kUnknownDim}))}, {}, "gradient");
              }),
              HasSubstr("the rule has a variable 'slots/0'"));
  EXPECT_THAT(
      open([&](const Scope& scope) {
        const Output base = variable(scope, "base_params", {kUnknownDim});
        Node* assign = scope.AddNode("AssignVariableOp", {base, read(scope, base)}, {{"dtype", DType::kFloat32}});
        scope.WithControl({assign}).AddNode("NoOp", {}, {}, "end");
      }),
      HasSubstr("assigns to 'base_params', which can only be read"));
  EXPECT_THAT(
      open([&](const Scope& scope) {
        const Output params = variable(scope, "params", {kUnknownDim});
        Node* assign = scope.AddNode("AssignVariableOp", {params, read(scope, params)}, {{"dtype", DType::kFloat32}});
        scope.WithControl({assign}).AddNode("NoOp", {}, {}, "step");
      }),
      HasSubstr("the rule's 'step' assigns to 'params' where it cannot"));
  EXPECT_THAT(open([&](const Scope& scope) { scope.Op("Identity", {scope.Const(1.0f)}, {}, "gradient"); }),
              HasSubstr("the rule's 'gradient' is float32[]; it must be a float32 vector"));
  EXPECT_THAT(open([&](const Scope& scope) {
                scope.Op("Identity", {scope.Const(Tensor::Of<float>({2}, {1, 2}), "big")}, {}, "gradient");
              }),
              HasSubstr("the rule's constant 'big' is float32[2]"));
  EXPECT_THAT(open([&](const Scope& scope) { scope.Op("Identity", {scope.Const(Tensor::Scalar(1.0))}, {}, "loss"); }),
              HasSubstr("does not depend on params"));
  EXPECT_THAT(open([&](const Scope& scope) { scope.AddNode("NoOp", {}, {}, "nothing"); }),
              HasSubstr("none of the nodes 'gradient', 'loss', 'step' and 'end'"));
}

}  // namespace
}  // namespace rivulet
