// CompileProgram's errors, folding and pruning, and the checks of Instance::Run.
#include "engine/compile/compile.h"

#include <gmock/gmock.h>

#include "engine/graph/op.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RIVULET_OP("TestWithoutKernel")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Shape([](InferenceContext& c) {
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    })
    .NotDifferentiable("a test")
    .Doc("An op that nothing computes.");

// y = x · w + 1 with x [?, 3], w a variable [3, 2].
struct Linear {
  Graph graph;
  Linear() {
    Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{-1, 3});
    const Output w = ReadVariable(scope, VariableHandle(scope, "weights", Shape{3, 2}));
    scope.Op("AddV2", {scope.Op("MatMul", {x, w}, {}, "product"), scope.Const(1.0f, "one")}, {}, "y");
    EXPECT_OK(scope.status());
  }
  Signature signature() const {
    Signature s;
    s.feeds = {{"x", F32({2, 3})}};
    s.fetches = {"y"};
    s.variables = {{"weights", 0, 0, F32({3, 2})}};
    return s;
  }
};

void ExpectRefused(const Graph& graph, const Signature& signature, absl::StatusCode code, const std::string& part) {
  const auto program = CompileProgram(graph, signature);
  EXPECT_THAT(program, StatusIs(code, HasSubstr(part)));
}

TEST(Compile, Linear_RunsAtTheFedBatch) {
  Linear linear;
  auto runner = Runner::Create(linear.graph, linear.signature(), {16});
  ASSERT_OK(runner);
  for (size_t i = 0; i < 6; ++i) (*runner)->floats(0)[i] = static_cast<float>(i);
  ASSERT_OK((*runner)->Run({Tensor::Of<float>({2, 3}, {1, 0, 0, 1, 1, 1})}));
  EXPECT_THAT((*runner)->fetched[0].flat<float>(), ElementsAre(1, 2, 7, 10));
}

TEST(Compile, UnknownFeed_IsNotFound) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds[0].tensor = "z";
  ExpectRefused(linear.graph, s, absl::StatusCode::kNotFound, "feed 'z'");
}

TEST(Compile, UnknownFetch_IsNotFound) {
  Linear linear;
  Signature s = linear.signature();
  s.fetches = {"yy"};
  ExpectRefused(linear.graph, s, absl::StatusCode::kNotFound, "fetch 'yy'");
}

TEST(Compile, UnknownTarget_NamesTheNearest) {
  Linear linear;
  Signature s = linear.signature();
  s.targets = {"prodct"};
  ExpectRefused(linear.graph, s, absl::StatusCode::kNotFound, "Did you mean 'product'?");
}

TEST(Compile, UnboundVariable_NamesTheNearest) {
  Linear linear;
  Signature s = linear.signature();
  s.variables[0].name = "weight";
  ExpectRefused(linear.graph, s, absl::StatusCode::kNotFound, "Did you mean 'weight'?");
}

TEST(Compile, UnfedPlaceholder_IsNamed) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds.clear();
  ExpectRefused(linear.graph, s, absl::StatusCode::kNotFound, "placeholder 'x'");
}

TEST(Compile, UnfedPlaceholderNobodyNeeds_IsNoMatter) {
  Linear linear;
  Scope(linear.graph).Placeholder("other", DType::kFloat32, Shape{});
  EXPECT_OK(CompileProgram(linear.graph, linear.signature()));
}

TEST(Compile, FeedOfAnotherType_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds[0].spec.dtype = DType::kFloat64;
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "feed 'x' is float64");
}

TEST(Compile, FeedOfAnotherShape_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds[0].spec.shape = {2, 4};
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "[2,4]");
}

TEST(Compile, FeedOfUnknownShape_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds[0].spec.shape = {-1, 3};
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "feed 'x'");
}

TEST(Compile, FeedTwice_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds.push_back({"x:0", F32({2, 3})});
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "fed twice");
}

TEST(Compile, FeedBeyondTwoToTheForty_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.feeds[0].spec.shape = {int64_t{1} << 40, 3};
  ExpectRefused(linear.graph, s, absl::StatusCode::kResourceExhausted, "feed 'x'");
}

TEST(Compile, TensorBeyondTwoToTheForty_IsRefused) {
  Graph graph;
  Scope scope(graph);
  const Output a = scope.Placeholder("a", DType::kFloat32, Shape{-1, 1}),
               b = scope.Placeholder("b", DType::kFloat32, Shape{1, -1});
  scope.Op("MatMul", {a, b}, {}, "outer");
  Signature s;
  s.feeds = {{"a", F32({int64_t{1} << 21, 1})}, {"b", F32({1, int64_t{1} << 21})}};
  s.fetches = {"outer"};
  ExpectRefused(graph, s, absl::StatusCode::kResourceExhausted, "'outer'");
}

TEST(Compile, FetchOfAHandle_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.fetches = {"weights"};
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "fetch 'weights'");
}

TEST(Compile, VariableOfAnotherShape_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.variables[0].spec.shape = {3, 3};
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "variable 'weights'");
}

TEST(Compile, VariableOffAMultipleOf64_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.variables[0].offset = 32;
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "multiple of 64");
}

TEST(Compile, VariableBoundTwice_IsRefused) {
  Linear linear;
  Signature s = linear.signature();
  s.variables.push_back(s.variables[0]);
  ExpectRefused(linear.graph, s, absl::StatusCode::kInvalidArgument, "bound twice");
}

TEST(Compile, ShapesThatClashWithTheseFeeds_NameNodeAndShapes) {
  Graph graph;
  Scope scope(graph);
  const Output a = scope.Placeholder("a", DType::kFloat32, Shape{-1}),
               b = scope.Placeholder("b", DType::kFloat32, Shape{-1});
  scope.Op("AddV2", {a, b}, {}, "sum");
  Signature s;
  s.feeds = {{"a", F32({2})}, {"b", F32({3})}};
  s.fetches = {"sum"};
  ExpectRefused(graph, s, absl::StatusCode::kInvalidArgument, "'sum'");
}

TEST(Compile, OpWithoutKernel_IsUnimplemented) {
  Graph graph;
  Scope scope(graph);
  scope.Op("TestWithoutKernel", {scope.Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  Signature s;
  s.feeds = {{"x", F32({2})}};
  s.fetches = {"y"};
  ExpectRefused(graph, s, absl::StatusCode::kUnimplemented, "TestWithoutKernel");
}

TEST(Compile, NoCudaDevice_IsUnimplemented) {
  Linear linear;
  CompileOptions options;
  options.kernels.device = Device::kCuda;
  EXPECT_THAT(CompileProgram(linear.graph, linear.signature(), options), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(Compile, ConstantsAlone_AreFolded) {
  Graph graph;
  Scope scope(graph);
  const Output three = scope.Op("AddV2", {scope.Const(1.0f), scope.Const(2.0f)});
  scope.Op("Mul", {three, three}, {}, "nine");
  Signature s;
  s.fetches = {"nine"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->instructions().size(), 1u);  // the fetch
  EXPECT_EQ((*runner)->program->memory().arena_bytes, 0u);
  ASSERT_OK((*runner)->Run());
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], 9);
}

TEST(Compile, ShapeOfAFeed_IsFoldedAndItsProducerPruned) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Op("Exp", {scope.Placeholder("x", DType::kFloat32, Shape{-1, 3})});
  scope.Op("Shape", {x}, {}, "shape");
  Signature s;
  s.feeds = {{"x", F32({5, 3})}};
  s.fetches = {"shape"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->instructions().size(), 1u);
  ASSERT_OK((*runner)->Run({Tensor(DType::kFloat32, {5, 3})}));
  EXPECT_THAT((*runner)->fetched[0].flat<int32_t>(), ElementsAre(5, 3));
}

TEST(Compile, AnyTensorMayBeFed) {
  Linear linear;
  Signature s;
  s.feeds = {{"product", F32({1, 2})}};
  s.fetches = {"y", "product"};
  auto runner = Runner::Create(linear.graph, s);
  ASSERT_OK(runner);
  ASSERT_OK((*runner)->Run({Tensor::Of<float>({1, 2}, {10, 20})}));
  EXPECT_THAT((*runner)->fetched[0].flat<float>(), ElementsAre(11, 21));
  EXPECT_THAT((*runner)->fetched[1].flat<float>(), ElementsAre(10, 20));
}

TEST(Compile, FedConstant_IsNotFolded) {
  Graph graph;
  Scope scope(graph);
  scope.Op("Neg", {scope.Const(1.0f, "one")}, {}, "negative");
  Signature s;
  s.feeds = {{"one", F32({})}};
  s.fetches = {"negative"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  ASSERT_OK((*runner)->Run({Tensor::Scalar<float>(5)}));
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], -5);
}

TEST(Compile, ViewsCostNothing) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2, 1, 3});
  const Output flat = scope.Op("Reshape", {scope.Op("Identity", {x}), scope.Const(Tensor::Of<int32_t>({1}, {-1}))});
  const Output row =
      scope.Op("ExpandDims", {scope.Op("StopGradient", {flat}), scope.Const(Tensor::Scalar<int32_t>(0))});
  scope.Op("Squeeze", {row}, {}, "y");
  ASSERT_OK(scope.status());
  Signature s;
  s.feeds = {{"x", F32({2, 1, 3})}};
  s.fetches = {"y"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->instructions().size(), 1u);
  ASSERT_OK((*runner)->Run({Tensor::Of<float>({2, 1, 3}, {1, 2, 3, 4, 5, 6})}));
  EXPECT_THAT((*runner)->fetched[0].flat<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Compile, ControlInputs_RunFirst) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{});
  const Output read = scope.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat32}}, "read");
  Node* assign = scope.AddNode("AssignVariableOp", {v, scope.Const(7.0f)});
  ASSERT_OK(graph.AddControlInput(read.node, assign));  // created before, runs after
  Signature s;
  s.fetches = {"read"};
  s.variables = {{"v", 0, 0, F32({})}};
  auto runner = Runner::Create(graph, s, {16});
  ASSERT_OK(runner);
  ASSERT_OK((*runner)->Run());
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], 7);
}

class RunChecks : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Runner::Create(linear_.graph, linear_.signature(), {16});
    ASSERT_OK(made);
    runner_ = *std::move(made);
  }
  void ExpectRefused(const Bindings& bindings, const std::string& part) {
    const Status status = runner_->instance->Run(bindings);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  Linear linear_;
  std::unique_ptr<Runner> runner_;
  std::vector<Tensor> input_ = {Tensor(DType::kFloat32, {2, 3})};
};

TEST_F(RunChecks, FeedOfAnotherShape_IsRefused) {
  const std::vector<Tensor> input = {Tensor(DType::kFloat32, {3, 3})};
  ExpectRefused(runner_->bindings(input), "feed 'x' is float32[3,3]");
}
TEST_F(RunChecks, FeedOfAnotherType_IsRefused) {
  const std::vector<Tensor> input = {Tensor(DType::kFloat64, {2, 3})};
  ExpectRefused(runner_->bindings(input), "feed 'x' is float64");
}
TEST_F(RunChecks, MissingFeed_IsRefused) { ExpectRefused(runner_->bindings(), "1 feeds"); }
TEST_F(RunChecks, FeedWithoutMemory_IsRefused) {
  Bindings bindings = runner_->bindings(input_);
  const TensorView none{nullptr, DType::kFloat32, {2, 3}};
  bindings.feeds = {&none, 1};
  ExpectRefused(bindings, "no memory");
}
TEST_F(RunChecks, UnboundBuffer_IsRefused) {
  Bindings bindings = runner_->bindings(input_);
  bindings.buffers = {};
  ExpectRefused(bindings, "buffer 0");
}
TEST_F(RunChecks, MisalignedBuffer_IsRefused) {
  Bindings bindings = runner_->bindings(input_);
  const Buffer off{runner_->memory[0].data() + 4};
  bindings.buffers = {&off, 1};
  ExpectRefused(bindings, "multiple of 64");
}
TEST_F(RunChecks, MissingArena_IsRefused) {
  Bindings bindings = runner_->bindings(input_);
  bindings.arena = nullptr;
  ExpectRefused(bindings, "arena");
}
TEST_F(RunChecks, TwoLanes_AreRefused) {
  Bindings bindings = runner_->bindings(input_);
  bindings.lanes = 2;
  ExpectRefused(bindings, "lane");
}
TEST_F(RunChecks, MovedMemory_IsFollowed) {
  ASSERT_OK(runner_->Run(input_));
  AlignedBuffer other(64);
  reinterpret_cast<float*>(other.data())[0] = 5;
  AlignedBuffer arena(runner_->arena.size());
  const std::vector<Tensor> input = {Tensor::Of<float>({2, 3}, {1, 0, 0, 0, 0, 0})};
  Bindings bindings = runner_->bindings(input);
  const Buffer moved{other.data()};
  bindings.buffers = {&moved, 1};
  bindings.arena = arena.data();
  ASSERT_OK(runner_->instance->Run(bindings));
  EXPECT_THAT(runner_->fetched[0].flat<float>(), ElementsAre(6, 1, 1, 1));
}

}  // namespace
}  // namespace rivulet::testing
