// If, Case, While and calls in programs.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "engine/compile/compile.h"
#include "engine/compile/optimize.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/function_call.h"
#include "tests/engine/program/allocations.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::CountAllocations;
using ::rivulet::testing::F32;
using ::rivulet::testing::Floats;
using ::rivulet::testing::Runner;
using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::rivulet::testing::VariableHandle;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ControlFlowTest : public ::testing::Test {
 protected:
  Output Int(int32_t value) { return scope_.Const(Tensor::Scalar<int32_t>(value)); }
  // i from 0 until `limit`; x becomes x + x each time.
  std::vector<Output> Doubling(Output limit, Output x) {
    return WhileLoop(
        scope_,
        [&](const Scope& s, auto v) {
          return s.Op("Less", {v[0], limit});
        },
        [&](const Scope& s, auto v) {
          return std::vector{s.Op("AddV2", {v[0], s.Const(Tensor::Scalar<int32_t>(1))}), s.Op("AddV2", {v[1], v[1]})};
        },
        {Int(0), x}, "doubling");
  }
  StatusOr<std::unique_ptr<Runner>> Compile(std::vector<Output> fetches, std::vector<size_t> buffers = {}) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    for (const Output& fetch : fetches) signature_.fetches.push_back(fetch.name());
    return Runner::Create(graph_, signature_, std::move(buffers));
  }
  Output Feed(const std::string& name, TensorSpec spec) {
    signature_.feeds.push_back({name, spec});
    return scope_.Placeholder(name, spec.dtype, spec.shape);
  }

  Graph graph_;
  Scope scope_{graph_};
  Signature signature_;
};

TEST_F(ControlFlowTest, While_RunsUntilItsConditionFails) {
  const Output limit = Feed("limit", {DType::kInt32, {}}), x = Feed("x", F32({2}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(Doubling(limit, x)));
  for (const int32_t n : {0, 1, 2, 5}) {
    ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(n), Floats({1, -3})}));
    const float factor = static_cast<float>(1 << n);
    EXPECT_EQ(runner->fetched[0].flat<int32_t>()[0], n);
    EXPECT_THAT(Values(runner->fetched[1]), ElementsAre(factor, -3 * factor)) << n;
  }
}

TEST_F(ControlFlowTest, While_AllocatesNothingWhileItRuns) {
  const Output limit = Feed("limit", {DType::kInt32, {}}), x = Feed("x", F32({2}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(Doubling(limit, x)));
  const std::vector<Tensor> feeds = {Tensor::Scalar<int32_t>(9), Floats({1, -3})};
  ASSERT_OK(runner->Run(feeds));
  const Bindings bindings = runner->bindings(feeds);
  bool ran = false;
  EXPECT_EQ(CountAllocations([&] { ran = runner->instance->Run(bindings).ok(); }), 0);
  EXPECT_TRUE(ran);
}

TEST_F(ControlFlowTest, If_RunsTheBranchThatItsConditionChooses) {
  const Output predicate = Feed("p", {DType::kBool, {}}), x = Feed("x", F32({2})), y = Feed("y", F32({2}));
  const auto z = Cond(
      scope_, predicate,
      [&](const Scope& s) {
        return std::vector{s.Op("Mul", {x, x}), y};
      },
      [&](const Scope& s) {
        return std::vector{s.Op("Neg", {y}), s.Op("Neg", {x})};
      });
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(z));
  EXPECT_EQ(z[0].node->type(), "StatelessIf");
  ASSERT_OK(runner->Run({Tensor::Scalar(true), Floats({2, 3}), Floats({5, 7})}));
  EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(4, 9));
  EXPECT_THAT(Values(runner->fetched[1]), ElementsAre(5, 7));
  ASSERT_OK(runner->Run({Tensor::Scalar(false), Floats({2, 3}), Floats({5, 7})}));
  EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(-5, -7));
  EXPECT_THAT(Values(runner->fetched[1]), ElementsAre(-2, -3));
}

TEST_F(ControlFlowTest, If_OfANumber_HoldsWhereItIsNotZero) {
  const Output predicate = Feed("p", F32({})), x = Feed("x", F32({1}));
  const auto z = Cond(
      scope_, predicate, [&](const Scope&) { return std::vector{x}; },
      [&](const Scope& s) { return std::vector{s.Op("Neg", {x})}; });
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(z));
  for (const auto& [value, expected] : {std::pair{0.5f, 3.0f}, {0.0f, -3.0f}, {-0.0f, -3.0f}, {NAN, 3.0f}}) {
    ASSERT_OK(runner->Run({Tensor::Scalar(value), Floats({3})}));
    EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(expected)) << value;
  }
}

TEST_F(ControlFlowTest, Case_OfAnIndexThatNoBranchHas_RunsTheLast) {
  const Output index = Feed("i", {DType::kInt32, {}}), x = Feed("x", F32({1}));
  std::vector<BuildBranch> branches;
  for (const float factor : {2.0f, 3.0f, 5.0f})
    branches.push_back([&, factor](const Scope& s) { return std::vector{s.Op("Mul", {x, s.Const(factor)})}; });
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(SwitchCase(scope_, index, branches)));
  for (const auto& [at, expected] : {std::pair{0, 2.0f}, {1, 3.0f}, {2, 5.0f}, {3, 5.0f}, {-1, 5.0f}}) {
    ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(at), Floats({1})}));
    EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(expected)) << at;
  }
}

TEST_F(ControlFlowTest, LoopsInBranchesInLoops_Run) {
  const Output n = Feed("n", {DType::kInt32, {}}), x = Feed("x", F32({1}));
  const auto one = [](const Scope& s) { return s.Const(Tensor::Scalar<int32_t>(1)); };
  // Of 1 … n the even ones double x in an inner loop of as many steps, the odd ones add one.
  const auto result = WhileLoop(
      scope_,
      [&](const Scope& s, auto v) {
        return s.Op("Less", {v[0], n});
      },
      [&](const Scope& s, auto v) {
        const Output i = s.Op("AddV2", {v[0], one(s)});
        const Output odd = s.Op("FloorMod", {i, s.Const(Tensor::Scalar<int32_t>(2))});
        const auto next = Cond(
            s, odd,
            [&](const Scope& t) {
              return std::vector{t.Op("AddV2", {v[1], t.Const(1.0f)})};
            },
            [&](const Scope& t) {
              return std::vector{WhileLoop(
                  t,
                  [&](const Scope& u, auto w) {
                    return u.Op("Less", {w[0], i});
                  },
                  [&](const Scope& u, auto w) {
                    return std::vector{u.Op("AddV2", {w[0], one(u)}), u.Op("AddV2", {w[1], w[1]})};
                  },
                  {t.Const(Tensor::Scalar<int32_t>(0)), v[1]})[1]};
            });
        return std::vector{i, next[0]};
      },
      {Int(0), x});
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({result[1]}));
  ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(4), Floats({1})}));
  EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(((1 + 1) * 4 + 1) * 16));
}

TEST_F(ControlFlowTest, Body_ReadsAndChangesTheVariableThatItCaptures) {
  const Output limit = Feed("limit", {DType::kInt32, {}});
  const Output handle = VariableHandle(scope_, "v", {2});
  signature_.variables = {{"v", 0, 0, F32({2})}};
  const auto loop = WhileLoop(
      scope_,
      [&](const Scope& s, auto v) {
        return s.Op("Less", {v[0], limit});
      },
      [&](const Scope& s, auto v) {
        const Output read = s.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
        s.AddNode("AssignAddVariableOp", {handle, read});
        return std::vector{s.Op("AddV2", {v[0], s.Const(Tensor::Scalar<int32_t>(1))})};
      },
      {Int(0)});
  const Output after = scope_.WithControl({loop[0].node}).Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({after}, {16}));
  EXPECT_EQ(loop[0].node->type(), "While");
  runner->floats(0)[0] = 1;
  runner->floats(0)[1] = 5;
  ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(3)}));
  EXPECT_THAT(Values(runner->fetched[0]), ElementsAre(8, 40));
  EXPECT_EQ(runner->floats(0)[1], 40);
}

TEST_F(ControlFlowTest, RandomOps_DrawAnewInEveryIteration_AndTheSameInEveryRun) {
  const Output limit = Feed("limit", {DType::kInt32, {}});
  const auto loop = WhileLoop(
      scope_,
      [&](const Scope& s, auto v) {
        return s.Op("Less", {v[0], limit});
      },
      [&](const Scope& s, auto v) {
        const Output shape = s.Const(Tensor::Of<int32_t>({1}, {4}));
        return std::vector{s.Op("AddV2", {v[0], s.Const(Tensor::Scalar<int32_t>(1))}),
                           s.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}})};
      },
      {Int(0), scope_.Const(Floats({0, 0, 0, 0}))});
  const Output outside =
      scope_.Op("RandomUniform", {scope_.Const(Tensor::Of<int32_t>({1}, {4}))}, {{"dtype", DType::kFloat32}});
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({loop[1], outside}));
  std::set<float> seen;
  for (const int32_t n : {1, 2, 3, 4}) {
    ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(n)}));
    const std::vector<float> first = Values(runner->fetched[0]);
    ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(n)}));
    EXPECT_EQ(first, Values(runner->fetched[0]));
    seen.insert(first.begin(), first.end());
  }
  for (const float value : Values(runner->fetched[1])) seen.insert(value);
  EXPECT_EQ(seen.size(), 20u);
  const std::vector<float> before = Values(runner->fetched[0]);
  ++runner->step;
  ASSERT_OK(runner->Run({Tensor::Scalar<int32_t>(4)}));
  EXPECT_NE(before, Values(runner->fetched[0]));
}

TEST_F(ControlFlowTest, EndlessLoop_EndsWhenItsStepsAreSpent) {
  const Output x = Feed("x", F32({}));
  const auto loop = WhileLoop(
      scope_, [&](const Scope& s, auto) { return s.Const(Tensor::Scalar(true)); },
      [&](const Scope& s, auto v) {
        return std::vector{s.Op("AddV2", {v[0], s.Const(1.0f)})};
      },
      {x}, "forever");
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(loop));
  const std::vector<Tensor> feeds = {Tensor::Scalar(0.0f)};
  Bindings bindings = runner->bindings(feeds);
  bindings.max_loop_steps = 1000;
  EXPECT_THAT(runner->instance->Run(bindings),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("StatelessWhile 'forever'"), HasSubstr("after 1000 iterations"))));
  bindings.max_loop_steps = -1;
  bindings.deadline = std::chrono::steady_clock::now();
  EXPECT_THAT(runner->instance->Run(bindings),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("StatelessWhile 'forever'")));
}

TEST_F(ControlFlowTest, LoopOfAMillionSteps_EndsUnderABudgetOfAThousand) {
  const Output limit = Feed("limit", {DType::kInt32, {}}), x = Feed("x", F32({1}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(Doubling(limit, x)));
  std::vector<Tensor> feeds = {Tensor::Scalar<int32_t>(1'000'000), Floats({1})};
  Bindings bindings = runner->bindings(feeds);
  bindings.max_loop_steps = 1000;
  EXPECT_THAT(runner->instance->Run(bindings),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("StatelessWhile 'doubling'")));
  // The budget is a run's: the next one has all of it again, and a loop within it ends by itself.
  feeds[0] = Tensor::Scalar<int32_t>(1000);
  bindings = runner->bindings(feeds);
  bindings.max_loop_steps = 1000;
  EXPECT_OK(runner->instance->Run(bindings));
}

// Ends a run after so many instructions.
class Canceller final : public RunObserver {
 public:
  explicit Canceller(CancellationToken token) : token_(std::move(token)) {}
  void Begin(const Program& program, int index, const KernelContext&) override {
    nodes.insert(program.instructions()[static_cast<size_t>(index)].op);
  }
  Status End(const Program&, int, const KernelContext&) override {
    if (++seen == 100) token_.Cancel();
    return {};
  }
  std::set<std::string> nodes;
  int seen = 0;

 private:
  CancellationToken token_;
};

TEST_F(ControlFlowTest, Cancelled_EndsBetweenIterations_AndObserversSeeWhatRunsInside) {
  const Output limit = Feed("limit", {DType::kInt32, {}}), x = Feed("x", F32({1}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(Doubling(limit, x)));
  const CancellationToken token = CancellationToken::Create();
  Canceller canceller(token);
  const std::vector<Tensor> feeds = {Tensor::Scalar<int32_t>(1 << 30), Floats({1})};
  Bindings bindings = runner->bindings(feeds);
  bindings.observer = &canceller;
  EXPECT_THAT(runner->instance->Run(bindings, token), StatusIs(absl::StatusCode::kCancelled, HasSubstr("doubling")));
  EXPECT_LT(canceller.seen, 110);
  EXPECT_TRUE(canceller.nodes.contains("Less"));
  EXPECT_TRUE(canceller.nodes.contains("AddV2"));
}

TEST_F(ControlFlowTest, FailureInside_NamesLoopIterationFunctionAndNode) {
  const Output limit = Feed("limit", {DType::kInt32, {}}), x = Feed("x", F32({3}));
  const auto loop = WhileLoop(
      scope_,
      [&](const Scope& s, auto v) {
        return s.Op("Less", {v[0], limit});
      },
      [&](const Scope& s, auto v) {
        s.Op("GatherV2", {x, v[0], s.Const(Tensor::Scalar<int32_t>(0))}, {}, "pick");
        return std::vector{s.Op("AddV2", {v[0], s.Const(Tensor::Scalar<int32_t>(1))}),
                           s.Op("GatherV2", {x, v[0], s.Const(Tensor::Scalar<int32_t>(0))}, {}, "row")};
      },
      {Int(0), scope_.Const(0.0f)}, "rows");
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(loop));
  EXPECT_OK(runner->Run({Tensor::Scalar<int32_t>(3), Floats({1, 2, 3})}));
  EXPECT_THAT(runner->Run({Tensor::Scalar<int32_t>(4), Floats({1, 2, 3})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("StatelessWhile 'rows'"), HasSubstr("iteration 3 of 'rows_body'"),
                             HasSubstr("GatherV2 'row'"))));
}

TEST_F(ControlFlowTest, LoopVariableThatGrows_IsRefusedByName) {
  const Output x = Feed("x", F32({2}));
  const auto grow = [&](std::vector<Shape> shapes) {
    return WhileLoop(
        scope_, [&](const Scope& s, auto) { return s.Const(Tensor::Scalar(false)); },
        [&](const Scope& s, auto v) {
          return std::vector{s.Op("ConcatV2", {v[0], v[0], s.Const(Tensor::Scalar<int32_t>(0))})};
        },
        {x}, "grow", std::move(shapes));
  };
  const auto relaxed = grow({Shape{kUnknownDim}});
  EXPECT_THAT(Compile(relaxed).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("StatelessWhile 'grow'"), HasSubstr("loop variable 0 ('variable_0')"),
                             HasSubstr("[2]"), HasSubstr("[4]"))));
  grow({});
  EXPECT_THAT(scope_.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("loop variable 0"), HasSubstr("output_shapes"))));
}

TEST_F(ControlFlowTest, BranchesOfDifferentShapes_AreRefusedUnlessTheConditionIsKnown) {
  const Output predicate = Feed("p", {DType::kBool, {}}), x = Feed("x", F32({2}));
  const auto choose = [&](Output condition) {
    return Cond(
        scope_, condition, [&](const Scope&) { return std::vector{x}; },
        [&](const Scope& s) {
          return std::vector{s.Op("Sum", {x, s.Const(Tensor::Scalar<int32_t>(0))})};
        });
  };
  const auto known = choose(scope_.Const(Tensor::Scalar(false)));
  const auto unknown = choose(predicate);
  EXPECT_FALSE(unknown[0].shape().known_rank());
  EXPECT_THAT(Compile({unknown[0]}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("StatelessIf 'Cond"), HasSubstr("then_branch"), HasSubstr("else_branch"))));
  signature_.fetches.clear();
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({known[0]}));
  ASSERT_OK(runner->Run({Tensor::Scalar(true), Floats({2, 3})}));
  EXPECT_EQ(Values(runner->fetched[0]), std::vector<float>{5});
}

TEST_F(ControlFlowTest, NodesThatDoNotFitTheirFunctions_AreRefusedByName) {
  const Output x = Feed("x", F32({2}));
  const auto made = MakeFunction(scope_, "half", std::vector{F32({2})}, [](const Scope& s, auto v) {
    return std::vector{s.Op("Mul", {v[0], s.Const(0.5f)})};
  });
  const auto refuse = [&](NodeSpec spec, std::string_view what) {
    spec.name = "call";
    spec.op = "PartitionedCall";
    const Status refused = graph_.AddNode(std::move(spec)).status();
    EXPECT_THAT(std::string(Message(refused)),
                AllOf(HasSubstr("PartitionedCall 'call'"), HasSubstr(std::string(what))));
  };
  const std::vector<DType> one = {DType::kFloat32};
  refuse({"", "", {x}, {}, {{"Tout", one}, {"f", FunctionRef{"third"}}}}, "f is the function 'third', which the graph");
  refuse({"", "", {x, x}, {}, {{"Tout", one}, {"f", FunctionRef{"half"}}}}, "f 'half' takes 1 arguments");
  refuse({"", "", {Int(1)}, {}, {{"Tout", one}, {"f", FunctionRef{"half"}}}}, "takes float32 as argument 0");
  refuse({"", "", {x}, {}, {{"Tout", std::vector<DType>{}}, {"f", FunctionRef{"half"}}}}, "gives 1 results");
  refuse({"", "", {x}, {}, {{"Tout", std::vector{DType::kInt32}}, {"f", FunctionRef{"half"}}}},
         "gives float32 as result 0");
  const Output wide = Feed("wide", F32({3}));
  refuse({"", "", {wide}, {}, {{"Tout", one}, {"f", FunctionRef{"half"}}}}, "takes float32[2] as argument 0");
}

TEST_F(ControlFlowTest, ShapesThatFollowFromAConstantArgument_AreKnown) {
  const Output x = Feed("x", F32({6}));
  const Output shape = scope_.Const(Tensor::Of<int32_t>({2}, {2, 3}));
  const auto made = MakeFunction(scope_, "reshape", std::vector{F32({6})}, [&](const Scope& s, auto v) {
    return std::vector{s.Op("Reshape", {v[0], shape})};
  });
  const auto y = Call(scope_, made, {x});
  ASSERT_OK(scope_.status());
  EXPECT_EQ(y[0].shape(), (Shape{2, 3}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({y[0]}));
  EXPECT_OK(runner->Run({Floats({1, 2, 3, 4, 5, 6})}));
}

TEST_F(ControlFlowTest, Calls_AreInlinedWithTheSameBits) {
  const Output x = Feed("x", F32({64}));
  const auto inner = MakeFunction(scope_, "inner", std::vector{F32({64})}, [&](const Scope& s, auto v) {
    return std::vector{s.Op("Tanh", {s.Op("Mul", {v[0], x})}), v[0]};
  });
  const auto outer = MakeFunction(scope_, "outer", std::vector{F32({64})}, [&](const Scope& s, auto v) {
    const auto called = Call(s, inner, {v[0]});
    return std::vector{s.Op("AddV2", {called[0], called[1]})};
  });
  const Output y = scope_.Op("Identity", {Call(scope_, outer, {scope_.Op("Exp", {x})})[0]});
  const Output always = Cond(
      scope_, scope_.Const(Tensor::Scalar(true)), [&](const Scope& s) { return std::vector{s.Op("Neg", {y})}; },
      [&](const Scope&) { return std::vector{x}; })[0];
  const Output z = scope_.Op("Mul", {always, y});
  ASSERT_OK(scope_.status());
  signature_.fetches = {z.name()};
  Tensor input(DType::kFloat32, {64});
  for (size_t i = 0; float& value : input.flat<float>()) value = 0.05f * static_cast<float>(i++) - 1.5f;
  std::vector<std::vector<float>> results;
  std::vector<size_t> calls;
  for (const bool inlines : {true, false}) {
    CompileOptions options;
    if (!inlines) options.passes.without = {"inline_functions"};
    OptimizedGraph optimized;
    ASSERT_OK_AND_ASSIGN(const auto program, CompileProgram(graph_, signature_, options, &optimized));
    calls.push_back(static_cast<size_t>(
        std::ranges::count_if(optimized.graph.nodes(), [](const auto& node) { return RunsFunctions(node->type()); })));
    ASSERT_OK_AND_ASSIGN(const auto instance, program->Instantiate());
    AlignedBuffer arena(program->memory().arena_bytes);
    Tensor result(DType::kFloat32, {64});
    const TensorView feed = input.view(), fetch = result.view();
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.feeds = {&feed, 1};
    bindings.fetches = {&fetch, 1};
    ASSERT_OK(instance->Run(bindings));
    results.push_back(Values(result));
  }
  EXPECT_THAT(calls, ElementsAre(0, 2));
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(ControlFlowTest, InlinedEffects_KeepTheirOrder) {
  const Output x = Feed("x", F32({2}));
  const Output handle = VariableHandle(scope_, "v", {2});
  signature_.variables = {{"v", 0, 0, F32({2})}};
  const auto add = MakeFunction(scope_, "add", std::vector{F32({2})}, [&](const Scope& s, auto v) {
    const Output before = s.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
    Node* changed = s.AddNode("AssignAddVariableOp", {handle, v[0]});
    const Output after = s.WithControl({changed}).Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
    return std::vector{s.Op("Mul", {before, s.Const(10.0f)}), s.Op("AddV2", {after, s.Const(0.0f)})};
  });
  const auto first = Call(scope_, add, {x});
  const auto second = Call(scope_.WithControl({first[0].node}), add, {first[1]});
  const Output last = scope_.WithControl({second[0].node}).Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  std::vector<Output> fetches;
  for (const Output& output : {first[0], first[1], second[0], second[1], last})
    fetches.push_back(scope_.Op("Neg", {output}));
  ASSERT_OK_AND_ASSIGN(auto runner, Compile(fetches, {16}));
  for (const Instruction& instruction : runner->program->instructions())
    EXPECT_NE(instruction.op, "StatefulPartitionedCall");
  runner->floats(0)[0] = 1;
  ASSERT_OK(runner->Run({Floats({3, 5})}));
  // v: 1 → 4 → 8.
  const std::vector<float> expected = {-10, -4, -40, -8, -8};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Values(runner->fetched[i])[0], expected[i]) << i;
  EXPECT_EQ(runner->floats(0)[0], 8);
}

TEST_F(ControlFlowTest, FunctionMarkedNoinline_StaysACall) {
  const Output x = Feed("x", F32({2}));
  Graph body;
  const Scope inside(body, "kept");
  const Output v = inside.Op("_Arg", {}, {{"T", DType::kFloat32}, {"index", int64_t{0}}}, "v");
  const Output y = inside.Op("Neg", {v});
  ASSERT_OK_AND_ASSIGN(const auto kept, Function::Create("kept", std::move(body), {y}, {}, {}, /*noinline=*/true));
  const auto called = Call(scope_, {kept, {}}, {x});
  ASSERT_OK_AND_ASSIGN(auto runner, Compile({scope_.Op("Exp", {called[0]})}));
  EXPECT_EQ(runner->Count("function"), 1);
}

TEST_F(ControlFlowTest, FunctionThatIsGivenAVariableOfAnotherType_IsRefused) {
  const auto made =
      MakeFunction(scope_, "read", std::vector<TensorSpec>{{DType::kResource, {2}}}, [](const Scope& s, auto v) {
        return std::vector{s.Op("ReadVariableOp", {v[0]}, {{"dtype", DType::kFloat64}})};
      });
  const Output handle = VariableHandle(scope_, "v", {2});
  signature_.variables = {{"v", 0, 0, F32({2})}};
  const auto y = Call(scope_, made, {handle});
  EXPECT_THAT(Compile({y[0]}, {16}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("float64"), HasSubstr("float32"))));
}

}  // namespace
}  // namespace rivulet
