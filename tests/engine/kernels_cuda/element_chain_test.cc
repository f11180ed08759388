// Consecutive elementwise functions as one kernel: the number of kernels, and the same bits as with separate
// kernels.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "engine/compile/compile_gpu.h"
#include "engine/graph/scope.h"
#include "engine/program/staged_gpu_program.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/engine/kernels_cuda/op_case.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::Floats;

struct Outcome {
  std::vector<std::byte> values;  // of all fetches, then of all variables
  std::vector<std::string> calls;
};

// A graph over placeholders and float variables, which all lie in buffer 0.
class ElementChainTest : public ::testing::Test {
 protected:
  ElementChainTest() : scope_(graph_) { EnterWorkerThread(); }

  Output Feed(const std::string& name, Tensor value) {
    signature_.feeds.push_back({name, {value.dtype(), value.shape()}});
    fed_.push_back(value);
    return scope_.Placeholder(name, value.dtype(), value.shape());
  }
  Output Variable(const std::string& name, const Tensor& value) {
    signature_.variables.push_back({name, 0, buffer_.size(), {DType::kFloat32, value.shape()}});
    buffer_.resize((buffer_.size() + value.bytes() + 63) / 64 * 64);
    std::memcpy(buffer_.data() + signature_.variables.back().offset, value.data(), value.bytes());
    return scope_.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", value.shape()}, {"shared_name", name}},
                     name);
  }
  Output Read(Output handle) { return scope_.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}); }
  Output Number(float value) { return scope_.Const(value); }
  void Fetch(Output output) { signature_.fetches.push_back(output.name()); }
  void Target(Node* node) { signature_.targets.push_back(node->name()); }

  Outcome Run(const CompileOptions& options) {
    Outcome outcome;
    EXPECT_OK(scope_.status());
    auto program = CompileForGpu(graph_, signature_, options);
    auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0);
    EXPECT_OK(program);
    if (!program.ok() || !device.ok()) return outcome;
    for (const Instruction& call : (*program)->instructions())
      if (call.implementation != "fetch" && call.implementation != "copy") outcome.calls.push_back(call.implementation);
    const auto staged = NewStagedProgram(*program, *device);
    auto instance = staged->Instantiate();
    EXPECT_OK(instance);
    AlignedBuffer buffer(buffer_.size());
    std::ranges::copy(buffer_, buffer.data());
    std::vector<TensorView> feeds, fetches;
    std::vector<Tensor> results;
    for (const Tensor& fed : fed_) feeds.push_back(fed.view());
    for (const TensorSpec& spec : staged->fetch_specs()) results.emplace_back(spec.dtype, spec.shape);
    for (Tensor& result : results) fetches.push_back(result.view());
    const std::vector<Buffer> buffers = {{buffer.data()}};
    Bindings bindings;
    bindings.buffers = buffers;
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    EXPECT_OK((*instance)->Run(bindings));
    for (const Tensor& result : results)
      outcome.values.insert(outcome.values.end(), result.data(), result.data() + result.bytes());
    outcome.values.insert(outcome.values.end(), buffer.data(), buffer.data() + buffer_.size());
    return outcome;
  }

  // What the program calls when chains are joined; its bits are those without.
  std::vector<std::string> Joined() {
    CompileOptions plain;
    plain.passes.without = {"fuse_elements"};
    const Outcome apart = Run(plain), joined = Run({});
    EXPECT_EQ(joined.values, apart.values);
    EXPECT_LE(joined.calls.size(), apart.calls.size());
    return joined.calls;
  }

  Graph graph_;
  Scope scope_;
  Signature signature_;
  std::vector<Tensor> fed_;
  std::vector<std::byte> buffer_;
};

using ::testing::ElementsAre;

TEST_F(ElementChainTest, FunctionsOfOneShape_AreOneCall) {
  const Output x = Feed("x", Floats({7, 61}, 1)), y = Feed("y", Floats({7, 61}, 2));
  Fetch(scope_.Op("Tanh", {scope_.Op("AddV2", {scope_.Op("Mul", {x, y}), scope_.Op("Exp", {y})})}));
  EXPECT_THAT(Joined(), ElementsAre("cuda Exp + Mul + AddV2 + Tanh"));
}

TEST_F(ElementChainTest, ScalarsBiasesAndColumns_AreReadWhereTheyLie) {
  const Output x = Feed("x", Floats({5, 3, 4}, 1));
  const Output scaled = scope_.Op("Mul", {x, Feed("scalar", Floats({}, 2))});
  const Output moved = scope_.Op("AddV2", {scaled, Feed("bias", Floats({4}, 3))});
  const Output columns = scope_.Op("Sub", {Feed("column", Floats({5, 1, 1}, 4)), moved});
  const Output middle = scope_.Op("Mul", {columns, Feed("middle", Floats({3, 1}, 5))});
  Fetch(scope_.Op("Elu", {middle}));
  EXPECT_EQ(Joined().size(), 1u);
}

TEST_F(ElementChainTest, WhatIsBroadcastAlongTwoAxesApart_StaysByItself) {
  const Output x = Feed("x", Floats({5, 3, 4}, 1));
  const Output odd = scope_.Op("AddV2", {scope_.Op("Neg", {x}), Feed("odd", Floats({5, 1, 4}, 2))});
  Fetch(scope_.Op("Exp", {odd}));
  EXPECT_THAT(Joined(), ElementsAre("cuda", "cuda", "cuda"));
}

TEST_F(ElementChainTest, Masks_NeedNoMemory) {
  const Output x = Feed("x", Floats({333}, 1));
  const Output inside = scope_.Op("LogicalAnd", {scope_.Op("Greater", {x, Number(-0.5f)}),
                                                 scope_.Op("LogicalNot", {scope_.Op("Less", {Number(0.5f), x})})});
  Fetch(scope_.Op("SelectV2", {inside, scope_.Op("Square", {x}), Number(0)}));
  EXPECT_EQ(Joined().size(), 1u);
}

TEST_F(ElementChainTest, MasksThatAreNumbers_AreZeroAndOne) {
  const Output x = Feed("x", Floats({97}, 1));
  const Output mask = scope_.Op("Cast", {x}, {{"DstT", DType::kBool}});
  Fetch(scope_.Op("Sub", {scope_.Op("Cast", {mask}, {{"DstT", DType::kFloat32}}), x}));
  EXPECT_EQ(Joined().size(), 1u);
}

TEST_F(ElementChainTest, WhatOthersReadToo_StaysInMemory) {
  const Output x = Feed("x", Floats({64}, 1));
  const Output shared = scope_.Op("Exp", {x});
  Fetch(shared);
  Fetch(scope_.Op("Neg", {scope_.Op("Tanh", {shared})}));
  EXPECT_THAT(Joined(), ElementsAre("cuda", "cuda Tanh + Neg"));
}

TEST_F(ElementChainTest, ADiamond_IsOneCall) {
  const Output x = Feed("x", Floats({64}, 1)), top = scope_.Op("Exp", {x});
  Fetch(scope_.Op("Sub", {scope_.Op("Tanh", {top}), top}));
  EXPECT_EQ(Joined().size(), 1u);
}

TEST_F(ElementChainTest, MoreThanAKernelTakes_AreSeveralCalls) {
  Output x = Feed("x", Floats({129}, 1));
  for (int i = 0; i < 60; ++i) x = scope_.Op(i % 2 == 0 ? "Tanh" : "Softsign", {x});
  Fetch(x);
  EXPECT_EQ(Joined().size(), 3u);  // of at most 24
}

TEST_F(ElementChainTest, ManyAddends_AreSummedInOrder) {
  std::vector<Output> addends;
  for (uint32_t i = 0; i < 9; ++i)
    addends.push_back(scope_.Op("Neg", {Feed(fmt::format("x{}", i), Floats({50}, i + 1))}));
  Fetch(scope_.Op("Relu", {scope_.Op("AddN", addends)}));
  EXPECT_EQ(Joined().size(), 1u);
}

// FedProx's gradient, and then the step: what changes the weights reads them too.
TEST_F(ElementChainTest, TheOptimizersUpdate_TakesTheGradientAsItIsMade) {
  for (const bool nesterov : {false, true}) {
    const std::string name = nesterov ? "nesterov/" : "";
    const Output w = Variable(name + "w", Floats({200}, 1)), m = Variable(name + "m", Floats({200}, 2));
    const Output base = Feed(name + "base", Floats({200}, 3)), g = Feed(name + "g", Floats({200}, 4));
    const Output pulled = scope_.Op("AddV2", {g, scope_.Op("Mul", {scope_.Op("Sub", {Read(w), base}), Number(0.1f)})});
    Target(scope_.AddNode("ResourceApplyMomentum", {w, m, Number(0.3f), pulled, Number(0.9f)},
                          {{"T", DType::kFloat32}, {"use_nesterov", nesterov}}));
  }
  const Output w = Variable("plain", Floats({200}, 5));
  Target(scope_.AddNode(
      "ResourceApplyGradientDescent",
      {w, Number(0.3f), scope_.Op("ClipByValue", {Feed("d", Floats({200}, 6)), Number(-0.5f), Number(0.5f)})},
      {{"T", DType::kFloat32}}));
  const std::vector<std::string> calls = Joined();
  EXPECT_EQ(calls.size(), 3u) << fmt::format("{}", fmt::join(calls, "; "));
}

TEST_F(ElementChainTest, AVariableThatIsWrittenBetween_IsReadBefore) {
  const Output w = Variable("w", Floats({64}, 1)), x = Feed("x", Floats({64}, 2));
  const Output before = scope_.Op("Neg", {Read(w)});
  Node* const assign =
      scope_.WithControl({before.node}).AddNode("AssignAddVariableOp", {w, x}, {{"dtype", DType::kFloat32}});
  Fetch(scope_.WithControl({assign}).Op("Exp", {before}));
  EXPECT_EQ(Joined().size(), 3u);
}

// Seconds of the processor in which a program of so many layers is made: each has a chain of functions that reads a
// variable, and an update of it that follows another.
double SecondsToCompile(int layers) {
  Graph graph;
  Scope scope(graph);
  Signature signature;
  const TensorSpec spec{DType::kFloat32, Shape{8, 8}};
  const size_t bytes = 8 * 8 * sizeof(float);
  const auto feed = [&](const std::string& name) {
    signature.feeds.push_back({name, spec});
    return scope.Placeholder(name, spec.dtype, spec.shape);
  };
  const Output weights = feed("weights"), gradient = feed("gradient"), rate = scope.Const(0.1f);
  Output x = feed("x");
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("b{}", layer);
    signature.variables.push_back({name, 0, static_cast<size_t>(layer) * bytes, spec});
    const Output bias =
        scope.Op("VarHandleOp", {}, {{"dtype", spec.dtype}, {"shape", spec.shape}, {"shared_name", name}}, name);
    const Output read = scope.Op("ReadVariableOp", {bias}, {{"dtype", spec.dtype}});
    x = scope.Op("Tanh", {scope.Op("AddV2", {scope.Op("MatMul", {x, weights}), read})});
    const Output delta = scope.Op("Square", {scope.Op("Mul", {gradient, x})});
    signature.targets.push_back(scope.WithControl({x.node})
                                    .AddNode("ResourceApplyGradientDescent", {bias, rate, delta}, {{"T", spec.dtype}})
                                    ->name());
  }
  signature.fetches.push_back(x.name());
  EXPECT_OK(scope.status());
  const auto now = [] {
    timespec time = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  const auto program = CompileForGpu(graph, signature, {});
  const double seconds = now() - begin;
  EXPECT_OK(program);
  if (!program.ok()) return seconds;
  const auto joined = std::ranges::count_if((*program)->instructions(), [](const Instruction& call) {
    return call.implementation.find(" + ") != std::string::npos;
  });
  EXPECT_EQ(joined, 2 * layers);
  return seconds;
}

// Nothing that is asked of a step walks over all the others: with that it was seventeen times the time.
TEST_F(ElementChainTest, ThreeTimesTheLayers_AreCompiledInProportion) {
  constexpr int kLayers = 1000;
  double few = SecondsToCompile(kLayers), many = SecondsToCompile(3 * kLayers);
  // Whatever else runs can only make them longer: the shortest of some tries counts.
  for (int attempt = 0; attempt < 3 && many > 5.5 * few; ++attempt) {
    few = std::min(few, SecondsToCompile(kLayers));
    many = std::min(many, SecondsToCompile(3 * kLayers));
  }
  EXPECT_LT(many, 5.5 * few);
}

class ElementChain16Test : public ElementChainTest, public ::testing::WithParamInterface<DType> {};

TEST_P(ElementChain16Test, SixteenBits_AreConvertedAsTheyAreRead) {
  const Output x = Feed("x", Floats({512}, 1)), y = Feed("y", Floats({512}, 2));
  const auto narrow = [&](Output of) { return scope_.Op("Cast", {of}, {{"DstT", GetParam()}}); };
  const Output sum = scope_.Op("AddV2", {narrow(x), narrow(y)});
  const Output product = scope_.Op("Mul", {scope_.Op("Relu", {sum}), sum});
  Fetch(scope_.Op("Cast", {product}, {{"DstT", DType::kFloat32}}));
  EXPECT_EQ(Joined().size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(Types, ElementChain16Test, ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace rivulet
