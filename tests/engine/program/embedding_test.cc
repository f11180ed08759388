// Sparse gradients of an embedding. Plain SGD and Adagrad change only the rows looked up, with the bits of the dense
// step; consumers of a dense gradient get one; a flat gradient of a federated step is fused into its rows.
#include <gmock/gmock.h>

#include "engine/gradients/gradients.h"
#include "engine/gradients/indexed_slices.h"
#include "engine/optimizers/apply_gradients.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 50, kWidth = 12, kIds = 17;

Tensor Ids() {
  Tensor ids(DType::kInt32, {kIds});
  for (int64_t i = 0; i < kIds; ++i) ids.flat<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7 % 11 * 3);
  return ids;
}

enum class Lookup { kResourceGather, kGather, kTwice };

// The mean square of looked-up rows that are multiplied by each other's sum, so that gradients differ.
Output Loss(const Scope& scope, Output table, Lookup how) {
  const Output ids = scope.Placeholder("ids", DType::kInt32, {kIds});
  const auto gather = [&](Output indices) {
    if (how != Lookup::kGather) return scope.Op("ResourceGather", {table, indices}, {{"dtype", DType::kFloat32}});
    return scope.Op("GatherV2", {ReadVariable(scope, table), indices, scope.Const(Tensor::Scalar<int32_t>(0))});
  };
  Output rows = gather(ids);
  if (how == Lookup::kTwice) {
    const Output others =
        scope.Op("Cast", {scope.Op("Reshape", {ids, scope.Const(Tensor::Of<int32_t>({2}, {kIds, 1}))})},
                 {{"DstT", DType::kInt64}});
    rows =
        scope.Op("AddV2", {rows, scope.Op("Squeeze", {gather(others)}, {{"squeeze_dims", std::vector<int64_t>{1}}})});
  }
  const Output squares = scope.Op("Mul", {rows, scope.Op("Mul", {rows, rows})});
  return scope.Op("Mean", {squares, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "loss");
}

struct Step {
  Graph graph;
  Signature signature;
  std::vector<Output> gradients;
};

// `dense`: the gradient goes through an Identity, which hides that it is sparse.
std::unique_ptr<Runner> Compiled(Lookup how, OptimizerSpec optimizer, bool dense) {
  Graph graph;
  Scope scope(graph);
  const Output table = VariableHandle(scope, "table", {kRows, kWidth});
  const auto gradients = ComputeGradients(graph, Loss(scope, table, how), std::vector{table});
  EXPECT_OK(gradients);
  EXPECT_TRUE(AsIndexedSlices(gradients->front()).has_value());
  Output gradient = gradients->front();
  if (dense) gradient = scope.Op("Mul", {gradient, scope.Const(1.0f)});
  const auto step = ApplyGradients(scope, optimizer, std::vector{table}, std::vector{gradient});
  EXPECT_OK(step);
  Signature signature;
  signature.feeds = {{"ids", {DType::kInt32, Shape{kIds}}}};
  signature.fetches = {"loss"};
  signature.targets = {(*step)->name()};
  signature.variables = {{"table", 0, 0, F32({kRows, kWidth})}};
  if (optimizer.kind == "adagrad") signature.variables.push_back({"table/accumulator", 1, 0, F32({kRows, kWidth})});
  auto runner = Runner::Create(graph, signature, {kRows * kWidth, kRows * kWidth});
  EXPECT_OK(runner);
  for (size_t i = 0; float& value : (*runner)->floats(0)) value = static_cast<float>(i++ * 37 % 101) * 0.01f - 0.5f;
  for (float& value : (*runner)->floats(1)) value = 0.1f;
  return *std::move(runner);
}

bool Runs(const Runner& runner, std::string_view op) {
  for (const Instruction& i : runner.program->instructions())
    if (i.op == op) return true;
  return false;
}

void ExpectSparseStep(Lookup how, OptimizerSpec optimizer, std::string_view op) {
  const auto sparse = Compiled(how, optimizer, false), dense = Compiled(how, optimizer, true);
  EXPECT_TRUE(Runs(*sparse, op));
  EXPECT_FALSE(Runs(*sparse, "UnsortedSegmentSum")) << "the dense gradient is made for nobody";
  EXPECT_TRUE(Runs(*dense, "UnsortedSegmentSum"));
  for (int step = 0; step < 5; ++step) {
    ASSERT_OK(sparse->Run({Ids()}));
    ASSERT_OK(dense->Run({Ids()}));
    EXPECT_EQ(sparse->fetched[0].flat<float>()[0], dense->fetched[0].flat<float>()[0]);
    for (size_t buffer : {0, 1})
      ASSERT_EQ(std::memcmp(sparse->memory[buffer].data(), dense->memory[buffer].data(), dense->memory[buffer].size()),
                0);
  }
}

TEST(Embedding, Sgd_TouchesOnlyRowsLookedUpWithTheBitsOfTheDenseStep) {
  for (Lookup how : {Lookup::kResourceGather, Lookup::kGather, Lookup::kTwice})
    ExpectSparseStep(how, {.learning_rate = 0.3}, "ResourceSparseApplyGradientDescent");
}

TEST(Embedding, Adagrad_TouchesOnlyRowsLookedUpWithTheBitsOfTheDenseStep) {
  for (Lookup how : {Lookup::kResourceGather, Lookup::kTwice})
    ExpectSparseStep(how, {.kind = "adagrad", .learning_rate = 0.3}, "ResourceSparseApplyAdagradV2");
}

// A segment sum drops negative ids; so does the step that takes its place.
TEST(Embedding, NegativeIndices_NameNoRow) {
  for (bool dense : {false, true}) {
    Graph graph;
    Scope scope(graph);
    const Output table = VariableHandle(scope, "table", {3, 1});
    const Output values = scope.Const(Tensor::Of<float>({3, 1}, {1, 2, 4}));
    const Output ids = scope.Placeholder("ids", DType::kInt32, {3});
    Output gradient = scope.Op("UnsortedSegmentSum", {values, ids, scope.Const(Tensor::Scalar<int32_t>(3))});
    if (dense) gradient = scope.Op("Mul", {gradient, scope.Const(1.0f)});
    const auto step = ApplyGradients(scope, {.learning_rate = 1}, std::vector{table}, std::vector{gradient});
    ASSERT_OK(step);
    Signature signature;
    signature.feeds = {{"ids", {DType::kInt32, Shape{3}}}};
    signature.targets = {(*step)->name()};
    signature.variables = {{"table", 0, 0, F32({3, 1})}};
    const auto runner = Runner::Create(graph, signature, {3});
    ASSERT_OK(runner);
    EXPECT_EQ(Runs(**runner, "ResourceSparseApplyGradientDescent"), !dense);
    ASSERT_OK((*runner)->Run({Tensor::Of<int32_t>({3}, {2, -1, 2})}));
    EXPECT_THAT((*runner)->floats(0), ::testing::ElementsAre(0, 0, -5));
    EXPECT_THAT(std::string((*runner)->Run({Tensor::Of<int32_t>({3}, {2, 3, 2})}).message()), HasSubstr("3"));
    EXPECT_THAT((*runner)->floats(0), ::testing::ElementsAre(0, 0, -5));
  }
}

TEST(Embedding, WeightDecay_MovesEveryRow) {
  const auto runner =
      Compiled(Lookup::kResourceGather, {.learning_rate = 0.3, .settings = {{"weight_decay", 0.1}}}, false);
  EXPECT_FALSE(Runs(*runner, "ResourceSparseApplyGradientDescent"));
  const float untouched = runner->floats(0)[kWidth];  // row 1, which no id names
  ASSERT_OK(runner->Run({Ids()}));
  EXPECT_NE(runner->floats(0)[kWidth], untouched);
}

// As a federated client trains: the gradient goes to a slice of a flat vector, with which the flat model moves.
std::unique_ptr<Runner> FlatRunner(bool transient) {
  Graph graph;
  Scope scope(graph);
  const Output table = VariableHandle(scope, "table", {kRows, kWidth});
  const auto gradients = ComputeGradients(graph, Loss(scope, table, Lookup::kGather), std::vector{table});
  EXPECT_OK(gradients);
  const Output slice = VariableHandle(scope, "grads/table", {kRows, kWidth});
  Node* assigned = scope.AddNode("AssignVariableOp", {slice, gradients->front()});
  const Scope after = scope.WithControl({assigned});
  const Output flat = ReadVariable(after, VariableHandle(scope, "grads", {kRows * kWidth}));
  after.AddNode("ResourceApplyGradientDescent",
                {VariableHandle(scope, "params", {kRows * kWidth}), scope.Const(0.3f), flat}, {}, "update");
  Signature signature;
  signature.feeds = {{"ids", {DType::kInt32, Shape{kIds}}}};
  signature.fetches = {"loss"};
  signature.targets = {"update"};
  signature.variables = {{"table", 0, 0, F32({kRows, kWidth})},
                         {"params", 0, 0, F32({kRows * kWidth})},
                         {"grads/table", 1, 0, F32({kRows, kWidth}), transient},
                         {"grads", 1, 0, F32({kRows * kWidth}), transient}};
  auto runner = Runner::Create(graph, signature, {kRows * kWidth, kRows * kWidth});
  EXPECT_OK(runner);
  for (size_t i = 0; float& value : (*runner)->floats(0)) value = static_cast<float>(i++ * 37 % 101) * 0.01f - 0.5f;
  return *std::move(runner);
}

TEST(Embedding, FlatTransientGradient_IsFusedIntoItsRowsWithTheSameBits) {
  const auto separate = FlatRunner(false), fused = FlatRunner(true);
  EXPECT_EQ(separate->Count("loop + sgd"), 0);
  EXPECT_EQ(fused->Count("loop + sgd"), 1);
  for (int step = 0; step < 5; ++step) {
    ASSERT_OK(separate->Run({Ids()}));
    ASSERT_OK(fused->Run({Ids()}));
    ASSERT_EQ(std::memcmp(separate->memory[0].data(), fused->memory[0].data(), fused->memory[0].size()), 0);
  }
}

// Rows of a variable of 4 rows of 2, changed by `op`.
StatusOr<std::vector<float>> Changed(const std::string& op, const Tensor& ids, std::vector<float> updates) {
  Graph graph;
  Scope scope(graph);
  const Output table = VariableHandle(scope, "table", {4, 2});
  const Output indices = scope.Placeholder("ids", ids.dtype(), ids.shape());
  scope.AddNode(op,
                {table, indices, scope.Const(Tensor::Of<float>({ids.elements(), 2}, std::span<const float>(updates)))},
                {}, "change");
  RIVULET_RETURN_IF_ERROR(scope.status());
  Signature signature;
  signature.feeds = {{"ids", {ids.dtype(), ids.shape()}}};
  signature.targets = {"change"};
  signature.variables = {{"table", 0, 0, F32({4, 2})}};
  RIVULET_ASSIGN_OR_RETURN(auto runner, Runner::Create(graph, signature, {8}));
  for (size_t i = 0; float& value : runner->floats(0)) value = static_cast<float>(i++);
  const Status ran = runner->Run({ids});
  std::vector<float> values(runner->floats(0).begin(), runner->floats(0).end());
  if (!ran.ok()) {
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], static_cast<float>(i)) << "changed by a refused run";
    return ran;
  }
  return values;
}

TEST(ResourceScatter, EachOp_ChangesTheRowsNamed) {
  const Tensor ids = Tensor::Of<int64_t>({3}, {2, 0, 2});
  const auto expect = [&](const std::string& op, std::vector<float> expected) {
    const auto changed = Changed(op, ids, {1, 2, 3, 4, 5, 9});
    ASSERT_OK(changed);
    EXPECT_EQ(*changed, expected) << op;
  };
  expect("ResourceScatterUpdate", {3, 4, 2, 3, 5, 9, 6, 7});
  expect("ResourceScatterAdd", {3, 5, 2, 3, 10, 16, 6, 7});
  expect("ResourceScatterSub", {-3, -3, 2, 3, -2, -6, 6, 7});
  expect("ResourceScatterMul", {0, 4, 2, 3, 20, 90, 6, 7});
  expect("ResourceScatterMax", {3, 4, 2, 3, 5, 9, 6, 7});
  expect("ResourceScatterMin", {0, 1, 2, 3, 1, 2, 6, 7});
}

TEST(ResourceScatter, IndexOutOfRange_ChangesNothing) {
  for (const std::string op : {"ResourceScatterUpdate", "ResourceScatterAdd"})
    for (int32_t bad : {4, -1, INT32_MAX, INT32_MIN}) {
      const auto changed = Changed(op, Tensor::Of<int32_t>({2}, {0, bad}), {1, 2, 3, 4});
      EXPECT_THAT(std::string(changed.status().message()), HasSubstr("is outside [0, 4), the variable's rows")) << op;
    }
}

TEST(ResourceScatter, UpdatesThatDoNotFit_AreRefused) {
  const auto changed = Changed("ResourceScatterAdd", Tensor::Of<int32_t>({2, 2}, {0, 1, 2, 3}), std::vector<float>(8));
  EXPECT_THAT(std::string(changed.status().message()), HasSubstr("do not fit the rows [2,2,2]"));
}

}  // namespace
}  // namespace rivulet::testing
