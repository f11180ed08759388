// Updates fused into gradient kernels: the same bits as a separate update, and only where nothing else sees it.
#include <gmock/gmock.h>

#include "engine/gradients/gradients.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

constexpr int64_t kBatch = 10, kIn = 37;

enum class Update { kDescent, kMomentum, kAdam };

// The update of `variable` by `gradient`, with slots of its shape in the buffers from `buffer` on.
Node* AddUpdate(const Scope& scope, Update update, Output variable, Output rate, Output gradient, int buffer,
                const Shape& shape, Signature& signature) {
  std::vector<Output> inputs = {variable};
  const auto add_slot = [&](const std::string& name) {
    inputs.push_back(VariableHandle(scope, name, shape));
    signature.variables.push_back({name, buffer++, 0, F32(shape)});
  };
  const auto add = [&](std::string_view op, std::initializer_list<Output> rest, AttrMap attrs = {}) {
    inputs.insert(inputs.end(), rest);
    return scope.AddNode(op, inputs, std::move(attrs), "update");
  };
  switch (update) {
    case Update::kDescent:
      break;
    case Update::kMomentum:
      add_slot("velocity");
      return add("ResourceApplyMomentum", {rate, gradient, scope.Const(0.9f)}, {{"use_nesterov", true}});
    case Update::kAdam:
      add_slot("m");
      add_slot("v");
      return add("ResourceApplyAdam", {scope.Const(0.0f), scope.Const(0.0f), rate, scope.Const(0.9f),
                                       scope.Const(0.999f), scope.Const(1e-7f), gradient});
  }
  return add("ResourceApplyGradientDescent", {rate, gradient});
}

// A two-layer model whose gradients go to slices of "grads", and one flat update of "params", as a client's step has
// them.
struct FlatStep {
  Graph graph;
  Signature signature;
  size_t floats = 0;

  // Constant, or as a schedule has it: of a counter, behind the gradients; the step moves the counter on after that, or
  // before anything else.
  enum class Rate { kConstant, kCounted, kCountedFirst };
  static constexpr int kSlots = 3;  // buffer of the first
  explicit FlatStep(bool transient, int64_t hidden = 48, int64_t out = 5, Rate rate = Rate::kConstant,
                    Update update = Update::kDescent) {
    Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kBatch, kIn});
    struct Weight {
      std::string name;
      Shape shape;
      size_t offset = 0;
      Output handle;
    };
    std::vector<Weight> weights = {
        {"w1", {kIn, hidden}, 0, {}}, {"b1", {hidden}, 0, {}}, {"w2", {hidden, out}, 0, {}}, {"b2", {out}, 0, {}}};
    for (Weight& weight : weights) {
      weight.offset = floats * sizeof(float);
      floats += (static_cast<size_t>(weight.shape.elements()) + 15) / 16 * 16;
      weight.handle = VariableHandle(scope, weight.name, weight.shape);
      signature.variables.push_back({weight.name, 0, weight.offset, F32(weight.shape)});
      signature.variables.push_back({"grads/" + weight.name, 1, weight.offset, F32(weight.shape), transient});
    }
    const auto dense = [&](Output input, size_t layer) {
      return scope.Op("BiasAdd", {scope.Op("MatMul", {input, ReadVariable(scope, weights[layer].handle)}),
                                  ReadVariable(scope, weights[layer + 1].handle)});
    };
    const Output y = dense(scope.Op("Relu", {dense(x, 0)}), 2);
    const Output loss =
        scope.Op("Mean", {scope.Op("Mul", {y, y}), scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "loss");
    std::vector<Output> handles;
    for (const Weight& weight : weights) handles.push_back(weight.handle);
    const auto gradients = ComputeGradients(graph, loss, handles);
    EXPECT_OK(gradients);
    std::vector<Node*> assigned;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Output slice = VariableHandle(scope, "grads/" + weights[i].name, weights[i].shape);
      assigned.push_back(scope.AddNode("AssignVariableOp", {slice, (*gradients)[i]}));
    }
    const Scope after = scope.WithControl(assigned);
    const int64_t elements = static_cast<int64_t>(floats);
    signature.variables.push_back({"grads", 1, 0, F32({elements}), transient});
    signature.variables.push_back({"params", 0, 0, F32({elements})});
    const Output flat = ReadVariable(after, VariableHandle(scope, "grads", Shape{elements}));
    Output learning_rate = scope.Const(0.1f);
    if (rate != Rate::kConstant) {
      signature.variables.push_back({"counter", 2, 0, F32({})});
      const Output counter = VariableHandle(scope, "counter", Shape{});
      const auto move_on = [&](const Scope& when, Output now) {
        return when.AddNode("AssignVariableOp", {counter, scope.Op("AddV2", {now, scope.Const(1.0f)})});
      };
      Output now;
      if (rate == Rate::kCounted) {
        now = ReadVariable(after, counter);
      } else {
        Node* moved = move_on(scope, ReadVariable(scope, counter));
        for (Node* assign : assigned) EXPECT_OK(graph.AddControlInput(assign, moved));
        now = ReadVariable(after, counter);
      }
      learning_rate = after.Op("RealDiv", {scope.Const(0.1f), after.Op("AddV2", {now, scope.Const(1.0f)})});
      if (rate == Rate::kCounted) {
        const Node* moved = move_on(after.WithControl({learning_rate.node}), now);
        signature.targets.push_back(moved->name());
      }
    }
    AddUpdate(after, update, VariableHandle(scope, "params", Shape{elements}), learning_rate, flat, kSlots,
              Shape{elements}, signature);
    EXPECT_OK(scope.status());
    signature.feeds = {{"x", F32({kBatch, kIn})}};
    signature.fetches = {"loss"};
    signature.targets.push_back("update");
  }

  // With `from_base` the params begin as a copy of buffer 2, which has the values.
  std::unique_ptr<Runner> Compiled(bool from_base = false) const {
    Signature copying = signature;
    if (from_base) copying.copies = {{0, 2, floats * sizeof(float)}};
    auto runner = Runner::Create(graph, copying, {floats, floats, from_base ? floats : 16, floats, floats});
    EXPECT_OK(runner);
    // The padding between slices stays zero.
    for (const VariableBinding& variable : signature.variables) {
      if (variable.buffer != 0 || variable.name == "params") continue;
      float* values = (*runner)->floats(from_base ? 2 : 0).data() + variable.offset / sizeof(float);
      for (int64_t i = 0; i < variable.spec.shape.elements(); ++i)
        values[i] = static_cast<float>(i * 37 % 101 - 50) * 0.01f;
    }
    return *std::move(runner);
  }
};

int Fused(const Runner& runner) {
  int fused = 0;
  for (const Instruction& i : runner.program->instructions()) fused += i.implementation.ends_with("+ sgd");
  return fused;
}

std::vector<Tensor> Input() {
  Tensor x(DType::kFloat32, {kBatch, kIn});
  for (size_t i = 0; float& value : x.flat<float>()) value = static_cast<float>(i++ * 53 % 97) * 0.01f - 0.5f;
  return {x};
}

TEST(UpdateFusion, TransientGradients_AreUsedAtOnceWithTheSameBits) {
  const auto separate = FlatStep(false).Compiled(), fused = FlatStep(true).Compiled();
  EXPECT_EQ(Fused(*separate), 0);
  EXPECT_EQ(Fused(*fused), 4);
  for (int step = 0; step < 5; ++step) {
    ASSERT_OK(separate->Run(Input()));
    ASSERT_OK(fused->Run(Input()));
    EXPECT_EQ(separate->fetched[0].flat<float>()[0], fused->fetched[0].flat<float>()[0]);
    ASSERT_EQ(std::memcmp(separate->memory[0].data(), fused->memory[0].data(), fused->memory[0].size()), 0);
  }
}

// What a schedule computes is computed before the gradients, where nothing changes what it is computed from.
TEST(UpdateFusion, RateOfACounter_IsThereWhenGradientsAreUsed) {
  using Rate = FlatStep::Rate;
  for (const auto& [rate, fusions] : {std::pair(Rate::kCounted, 4), {Rate::kCountedFirst, 0}}) {
    const auto separate = FlatStep(false, 48, 5, rate).Compiled(), fused = FlatStep(true, 48, 5, rate).Compiled();
    EXPECT_EQ(Fused(*fused), fusions);
    for (int step = 0; step < 5; ++step) {
      ASSERT_OK(separate->Run(Input()));
      ASSERT_OK(fused->Run(Input()));
      EXPECT_EQ(fused->floats(2)[0], static_cast<float>(step + 1));
      ASSERT_EQ(std::memcmp(separate->memory[0].data(), fused->memory[0].data(), fused->memory[0].size()), 0);
    }
  }
}

int ByParts(const Runner& runner) {
  int fused = 0;
  for (const Instruction& i : runner.program->instructions()) fused += i.implementation.ends_with("+ update");
  return fused;
}

void ExpectEqualMemory(const Runner& one, const Runner& other) {
  for (const int buffer : {0, FlatStep::kSlots, FlatStep::kSlots + 1}) {
    const AlignedBuffer& memory = one.memory[static_cast<size_t>(buffer)];
    EXPECT_EQ(std::memcmp(memory.data(), other.memory[static_cast<size_t>(buffer)].data(), memory.size()), 0)
        << "buffer " << buffer;
  }
}

TEST(UpdateFusion, LargeGradientUnderAnOptimizerWithSlots_IsUsedByPartsWithTheSameBits) {
  using Rate = FlatStep::Rate;
  for (const Update update : {Update::kMomentum, Update::kAdam}) {
    for (const Rate rate : {Rate::kConstant, Rate::kCounted}) {
      // 37 · 1,999 weights: more than stay near, and no multiple of any block or part.
      const auto separate = FlatStep(false, 1999, 5, rate, update).Compiled();
      const auto fused = FlatStep(true, 1999, 5, rate, update).Compiled();
      EXPECT_EQ(ByParts(*separate), 0);
      EXPECT_EQ(ByParts(*fused), 1) << "the first layer's weights; the rest is small";
      EXPECT_EQ(ByParts(*FlatStep(true, 48, 5, rate, update).Compiled()), 0);
      for (int step = 0; step < 3; ++step) {
        ASSERT_OK(separate->Run(Input()));
        ASSERT_OK(fused->Run(Input()));
        ExpectEqualMemory(*separate, *fused);
      }
      EXPECT_NE(fused->floats(FlatStep::kSlots)[5], 0);
    }
  }
}

// What reads a slot between gradient and update sees it as it was.
TEST(UpdateFusion, SlotReadBetweenGradientAndUpdate_KeepsThemApart) {
  FlatStep step(true, 1999, 5, FlatStep::Rate::kConstant, Update::kMomentum);
  Scope scope(step.graph);
  Node* update = step.graph.Find("update");
  const Output read = scope.Op("ReadVariableOp", {step.graph.Find("velocity")->output()}, {{"dtype", DType::kFloat32}});
  for (Node* before : update->control_inputs()) ASSERT_OK(step.graph.AddControlInput(read.node, before));
  const Output seen = scope.Op("Neg", {read}, {}, "seen");
  ASSERT_OK(step.graph.AddControlInput(update, seen.node));
  step.signature.fetches.push_back("seen");
  EXPECT_EQ(ByParts(*step.Compiled()), 0);
}

int WithInputGradient(const Runner& runner) {
  int merged = 0;
  for (const Instruction& i : runner.program->instructions())
    merged += i.implementation.ends_with("+ sgd + input gradient");
  return merged;
}

TEST(UpdateFusion, LargeLayer_MakesItsInputGradientInTheSameWalkWithTheSameBits) {
  // 250 · 301 weights: more than stay near between two walks, and no multiple of any block.
  const auto separate = FlatStep(false, 250, 301).Compiled(), fused = FlatStep(true, 250, 301).Compiled();
  EXPECT_EQ(WithInputGradient(*separate), 0);
  EXPECT_EQ(WithInputGradient(*fused), 1);
  EXPECT_EQ(Fused(*fused), 3) << "biases, and the first layer, whose input is no variable's business";
  for (int step = 0; step < 3; ++step) {
    ASSERT_OK(separate->Run(Input()));
    ASSERT_OK(fused->Run(Input()));
    ASSERT_EQ(std::memcmp(separate->memory[0].data(), fused->memory[0].data(), fused->memory[0].size()), 0);
  }
}

// Each kind of update, also of weights that are no multiple of any block.
TEST(BufferCopies, StepThatMovesAllWeights_MakesThemFromTheBaseWithTheSameBits) {
  for (const auto& [transient, hidden, out] : {std::tuple(false, 48, 5), {true, 48, 5}, {true, 250, 301}}) {
    const FlatStep step(transient, hidden, out);
    const auto copied = step.Compiled(), from_base = step.Compiled(true);
    EXPECT_EQ(from_base->Count("copy"), copied->Count("copy"));
    std::ranges::fill(from_base->floats(0), 7.0f);  // of another task
    const std::vector<float> base(from_base->floats(2).begin(), from_base->floats(2).end());
    ASSERT_OK(copied->Run(Input()));
    for (int run = 0; run < 2; ++run) {
      ASSERT_OK(from_base->Run(Input()));
      EXPECT_EQ(copied->fetched[0].flat<float>()[0], from_base->fetched[0].flat<float>()[0]);
      ASSERT_EQ(std::memcmp(copied->memory[0].data(), from_base->memory[0].data(), copied->memory[0].size()), 0);
    }
    EXPECT_THAT(from_base->floats(2), ::testing::ElementsAreArray(base));
  }
}

// u is changed by its handle after v has been read, w is assigned what v was, and nobody knows of the rest.
TEST(BufferCopies, WhatIsNotWrittenWhole_IsCopiedFirst) {
  Graph graph;
  Scope scope(graph);
  const Output u = VariableHandle(scope, "u", Shape{16}), v = VariableHandle(scope, "v", Shape{16}),
               w = VariableHandle(scope, "w", Shape{16});
  const Output old = ReadVariable(scope, v);
  const Output twice = scope.Op("Add", {old, old}, {}, "twice");
  Node* const added = scope.AddNode("AssignAddVariableOp", {u, twice}, {}, "added");
  Node* const assigned = scope.WithControl({added}).AddNode("AssignVariableOp", {w, old}, {}, "assigned");
  const Scope after = scope.WithControl({assigned});
  after.Op("Add", {ReadVariable(after, u), ReadVariable(after, w)}, {}, "seen");
  ASSERT_OK(scope.status());
  Signature signature;
  signature.fetches = {"seen"};
  signature.targets = {"assigned"};
  signature.variables = {{"u", 0, 0, F32({16})}, {"v", 0, 64, F32({16})}, {"w", 0, 128, F32({16})}};
  signature.copies = {{0, 1, 4 * 64}};
  ASSERT_OK_AND_ASSIGN(const auto runner, Runner::Create(graph, signature, {80, 80}));
  for (size_t i = 0; i < 80; ++i) runner->floats(0)[i] = 1000;
  for (size_t i = 0; i < 80; ++i) runner->floats(1)[i] = static_cast<float>(i);
  ASSERT_OK(runner->Run());
  for (size_t i = 0; i < 16; ++i) {
    const auto at = static_cast<float>(i);
    EXPECT_EQ(runner->floats(0)[i], at + 2 * (16 + at));
    EXPECT_EQ(runner->floats(0)[16 + i], 16 + at);
    EXPECT_EQ(runner->floats(0)[32 + i], 16 + at);
    EXPECT_EQ(runner->floats(0)[48 + i], 48 + at) << "bound by no variable, and part of the copy";
    EXPECT_EQ(runner->floats(0)[64 + i], 1000) << "beyond the copy";
    EXPECT_EQ(runner->fetched[0].flat<float>()[i], at + 2 * (16 + at) + 16 + at);
  }
}

TEST(BufferCopies, SourceThatTheProgramWrites_IsRefused) {
  const FlatStep step(false);
  Signature signature = step.signature;
  signature.copies = {{2, 0, 64}};
  EXPECT_THAT(Runner::Create(step.graph, signature, {step.floats, step.floats, step.floats}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("writes buffer 0")));
  signature.copies = {{0, 0, 64}};
  EXPECT_THAT(Runner::Create(step.graph, signature, {step.floats, step.floats}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("copy of itself")));
}

TEST(UpdateFusion, InputGradientOfASmallLayer_StaysApart) {
  EXPECT_EQ(WithInputGradient(*FlatStep(true).Compiled()), 0);
}

// Variables by name, updated each by its own gradient, as a session has them.
void ExpectUseOfAGradientInTheArena(Update update, int64_t columns) {
  std::unique_ptr<Runner> runners[2];
  for (const bool observed : {false, true}) {
    Graph graph;
    Scope scope(graph);
    Signature signature;
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kBatch, kIn});
    const Output w = VariableHandle(scope, "w", {kIn, columns});
    const Output y = scope.Op("MatMul", {x, ReadVariable(scope, w)});
    const Output gradient = scope.Op("MatMul", {x, y}, {{"transpose_a", true}}, "gradient");
    AddUpdate(scope.WithControl({gradient.node}), update, w, scope.Const(0.1f), gradient, FlatStep::kSlots,
              {kIn, columns}, signature);
    signature.feeds = {{"x", F32({kBatch, kIn})}};
    signature.targets = {"update"};
    if (observed) signature.fetches = {"gradient"};
    signature.variables.push_back({"w", 0, 0, F32({kIn, columns})});
    ASSERT_OK(scope.status());
    const auto floats = static_cast<size_t>(kIn * columns);
    auto runner = Runner::Create(graph, signature, {floats, 16, 16, floats, floats});
    ASSERT_OK(runner);
    for (size_t i = 0; float& value : (*runner)->floats(0)) value = static_cast<float>(i++ * 37 % 101) * 0.01f - 0.5f;
    runners[observed] = *std::move(runner);
  }
  EXPECT_EQ(Fused(*runners[0]) + ByParts(*runners[0]), 1);
  EXPECT_EQ(Fused(*runners[1]) + ByParts(*runners[1]), 0);
  for (int step = 0; step < 3; ++step) {
    ASSERT_OK(runners[0]->Run(Input()));
    ASSERT_OK(runners[1]->Run(Input()));
    ExpectEqualMemory(*runners[0], *runners[1]);
  }
}

TEST(UpdateFusion, GradientUsedOnceInTheArena_IsUsedAtOnceWithTheSameBits) {
  ExpectUseOfAGradientInTheArena(Update::kDescent, 64);
  ExpectUseOfAGradientInTheArena(Update::kMomentum, 1999);
  ExpectUseOfAGradientInTheArena(Update::kAdam, 1999);
}

TEST(UpdateFusion, GradientReadByAnother_IsWritten) {
  FlatStep step(true);
  Scope scope(step.graph);
  Node* update = step.graph.Find("update");
  scope.WithControl({update}).Op("ReadVariableOp", {step.graph.Find("grads/w1")->output()},
                                 {{"dtype", DType::kFloat32}}, "seen");
  ASSERT_OK(scope.status());
  step.signature.fetches.push_back("seen");
  const auto runner = step.Compiled();
  EXPECT_EQ(Fused(*runner), 3);  // w2's and those of both biases
  const auto separate = FlatStep(false).Compiled();
  ASSERT_OK(runner->Run(Input()));
  ASSERT_OK(separate->Run(Input()));
  EXPECT_EQ(std::memcmp(runner->memory[0].data(), separate->memory[0].data(), runner->memory[0].size()), 0);
  EXPECT_EQ(std::memcmp(runner->fetched[1].data(), separate->memory[1].data(), runner->fetched[1].bytes()), 0);
}

TEST(UpdateFusion, WeightReadBetweenGradientAndUpdate_IsUpdatedAfterwards) {
  FlatStep step(true);
  Scope scope(step.graph);
  Node* update = step.graph.Find("update");
  // Reads w1 after every gradient is there and before the update.
  const Output read = scope.Op("ReadVariableOp", {step.graph.Find("w1")->output()}, {{"dtype", DType::kFloat32}});
  for (Node* before : update->control_inputs()) ASSERT_OK(step.graph.AddControlInput(read.node, before));
  const Output copy = scope.Op("Neg", {read}, {}, "before");
  ASSERT_OK(step.graph.AddControlInput(update, copy.node));
  step.signature.fetches.push_back("before");
  const auto runner = step.Compiled();
  EXPECT_EQ(Fused(*runner), 3);
  const float w1 = runner->floats(0)[3];
  ASSERT_OK(runner->Run(Input()));
  EXPECT_EQ(runner->fetched[1].flat<float>()[3], -w1);
  EXPECT_NE(runner->floats(0)[3], w1);
}

}  // namespace
}  // namespace rivulet::testing
