// Ops against what peers made of the same inputs: every file *_reference.json in this folder (make_*_reference.py
// beside it wrote it). Each case runs twice: with its inputs fed, and with all of them constants, which the program
// then folds. A case:
//
//   {"name": "Softmax_wide", "op": "Softmax", "attrs": {}, "inputs": [TENSOR…], "outputs": [TENSOR…]}
//   TENSOR = {"dtype": "float32", "shape": [2, 3], "values": [1, "nan", "inf", "-inf", …], "constant": true}
//
// `constant` inputs are never fed. Optional: "rtol" (relative to the largest expected element, or to 1; by default 1e-6
// for float32, 1e-14 for float64, one unit in the last place for the 16-bit types), "any" (indices
// of outputs that are not compared), "output_gradients" with "input_gradients" (null where there is none): then the
// gradients by the inputs of sum(outputs · output_gradients) are compared too. Attributes: numbers, booleans, strings,
// lists of integers, {"type": "float32"}, {"floats": […]}, {"strings": […]}, {"types": […]}, {"shape": […]}.
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "engine/gradients/gradients.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "tests/testing/reference_json.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::AttrsOf;
using testing::Json;
using testing::TensorOf;

const Json& Cases() {
  static const Json cases = testing::ReferenceCases(RIVULET_REFERENCE_FOLDER);
  return cases;
}

// Sums of a few dozen products in float32 differ by their order; everything else by the last bits.
template <typename T>
void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance) {
  double largest = 1;
  for (T value : expected.flat<T>())
    if (std::isfinite(static_cast<double>(value))) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < expected.flat<T>().size(); ++i) {
    const double a = static_cast<double>(actual.flat<T>()[i]), e = static_cast<double>(expected.flat<T>()[i]);
    if (std::isnan(e)) {
      EXPECT_TRUE(std::isnan(a)) << "element " << i << ": " << a << ", expected NaN";
    } else if (std::isinf(e)) {
      EXPECT_EQ(a, e) << "element " << i;
    } else {
      EXPECT_LE(std::abs(a - e), tolerance * largest) << "element " << i << ": " << a << ", expected " << e;
    }
  }
}

void ExpectEqual(const Tensor& actual, const Tensor& expected, std::optional<double> tolerance) {
  ASSERT_EQ(Name(actual.dtype()), Name(expected.dtype()));
  ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
  if (actual.dtype() == DType::kFloat32) return ExpectNear<float>(actual, expected, tolerance.value_or(1e-6));
  if (actual.dtype() == DType::kFloat64) return ExpectNear<double>(actual, expected, tolerance.value_or(1e-14));
  if (actual.dtype() == DType::kBFloat16) return ExpectNear<bfloat16>(actual, expected, tolerance.value_or(0x1p-8));
  if (actual.dtype() == DType::kFloat16) return ExpectNear<float16>(actual, expected, tolerance.value_or(0x1p-11));
  const size_t bytes = expected.bytes();
  EXPECT_TRUE(bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0);
}

// sum(outputs · weights) as a scalar, over the outputs that have a weight.
Output WeightedSum(const Scope& scope, Node& node, const Json& weights) {
  Output total;
  for (int port = 0; port < static_cast<int>(weights.size()); ++port) {
    if (weights[static_cast<size_t>(port)].is_null()) continue;
    const Tensor weight = TensorOf(weights[static_cast<size_t>(port)]);
    std::vector<int32_t> axes(static_cast<size_t>(weight.shape().rank()));
    std::iota(axes.begin(), axes.end(), 0);
    const Output all = scope.Const(Tensor::Of<int32_t>(Shape({weight.shape().rank()}), std::span<const int32_t>(axes)));
    const Output sum = scope.Op("Sum", {scope.Op("Mul", {node.output(port), scope.Const(weight)}), all});
    total = total.node == nullptr ? sum : scope.Op("AddV2", {total, sum});
  }
  return total;
}

class Reference : public ::testing::TestWithParam<size_t> {};

TEST_P(Reference, ValuesAndGradients_AreThePeers) {
  const Json& c = Cases()[GetParam()];
  std::optional<double> tolerance;
  if (c.contains("rtol")) tolerance = c["rtol"].get<double>();
  std::set<size_t> any;
  if (c.contains("any")) any = c["any"].get<std::set<size_t>>();
  for (bool all_constant : {false, true}) {
    SCOPED_TRACE(all_constant ? "folded" : "fed");
    Graph graph;
    Scope scope(graph);
    std::vector<Output> inputs;
    testing::Feeds feeds;
    for (const Json& entry : c["inputs"]) {
      const Tensor tensor = TensorOf(entry);
      if (all_constant || entry.contains("constant")) {
        inputs.push_back(scope.Const(tensor));
      } else {
        inputs.push_back(scope.Placeholder(fmt::format("x{}", inputs.size()), tensor.dtype(), tensor.shape()));
        feeds.emplace_back(inputs.back().name(), tensor);
      }
    }
    Node* node = scope.AddNode(c["op"].get<std::string>(), inputs, AttrsOf(c["attrs"]));
    ASSERT_OK(scope.status());
    std::vector<std::string> fetches;
    for (int port = 0; port < static_cast<int>(node->outputs().size()); ++port)
      fetches.push_back(node->output(port).name());
    std::vector<Json> expected(c["outputs"].begin(), c["outputs"].end());
    ASSERT_EQ(fetches.size(), expected.size());

    if (c.contains("output_gradients")) {
      const Output loss = WeightedSum(scope, *node, c["output_gradients"]);
      ASSERT_OK(scope.status());
      std::vector<Output> xs;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!c["input_gradients"][i].is_null()) {
          xs.push_back(inputs[i]);
          expected.push_back(c["input_gradients"][i]);
        }
      const auto gradients = ComputeGradients(graph, loss, xs);
      ASSERT_OK(gradients);
      for (const Output& gradient : *gradients) fetches.push_back(gradient.name());
    }

    const auto outputs = testing::RunGraph(graph, feeds, fetches);
    ASSERT_OK(outputs);
    for (size_t i = 0; i < outputs->size(); ++i) {
      SCOPED_TRACE(fetches[i]);
      if (!any.contains(i)) ExpectEqual((*outputs)[i], TensorOf(expected[i]), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Reference, ::testing::Range(size_t{0}, Cases().size()),
                         [](const auto& info) { return Cases()[info.param]["name"].template get<std::string>(); });

// Sources, effects and random numbers have no forward value that a peer could know.
const std::set<std::string>& WithoutCase() {
  static const std::set<std::string> names = {
      "Const",
      "NoOp",
      "Placeholder",
      "PlaceholderWithDefault",
      "_Arg",
      "_Send",  // tests/dataflow/placement
      "_Recv",
      "VarHandleOp",
      "ReadVariableOp",
      "AssignVariableOp",
      "AssignAddVariableOp",
      "AssignSubVariableOp",
      "RandomUniform",
      "RandomStandardNormal",
      "TruncatedNormal",
      "RandomUniformInt",
      "Multinomial",
      "RandomShuffle",
      "Add",  // the same kernel as AddV2
      // Sessions run them: tests/dataflow/session/dynamic_shapes_test.cc.
      "Unique",
      "UniqueV2",
      "UniqueWithCounts",
      "ListDiff",
      "StringSplitV2",
      // Tables: tests/dataflow/lookup/table_test.cc.
      "HashTableV2",
      "MutableHashTableV2",
      "InitializeTableV2",
      "DynamicPartition",
      "NonMaxSuppressionV3",
      "NonMaxSuppressionV4",
      "Print",
      "Assert",
      "VarIsInitializedOp",  // the state of a variable, which has no case here
      // They run functions, which no case here can hold: tests/engine/graph/functions_test.cc compares them with
      // TensorFlow's.
      "If",
      "StatelessIf",
      "Case",
      "StatelessCase",
      "While",
      "StatelessWhile",
      "PartitionedCall",
      "StatefulPartitionedCall",
  };
  return names;
}

// A case here is one op and the tensors around it. Ops on lists, data sets, iterators and queues pass handles that only
// each other can make: they are compared with TensorFlow in whole graphs, in tests/engine/graph/lists_test.cc,
// tests/dataflow/input and tests/dataflow/session, whose census is that of tests/engine/ops.
bool PassesHandles(std::string_view op) {
  return op.find("TensorList") != std::string_view::npos || op.find("Dataset") != std::string_view::npos ||
         op.find("Iterator") != std::string_view::npos || op.find("Queue") != std::string_view::npos ||
         op.starts_with("Optional") || op.starts_with("LookupTable");
}

TEST(ReferenceCensus, EveryOp_HasACaseOrIsNamedHere) {
  std::set<std::string> covered;
  for (const Json& c : Cases()) {
    const std::string op = c["op"].get<std::string>();
    covered.insert(op);
    // The op of a backward pass, which has no use of its own, has run with it.
    if (c.contains("output_gradients") && OpRegistry::Global().Find(op + "Grad") != nullptr)
      covered.insert(op + "Grad");
  }
  for (const OpDef* op : OpRegistry::Global().All()) {
    // Effects on variables: tests/conformance/training, tests/engine/program/embedding_test.cc.
    if (op->name.starts_with("Resource") || PassesHandles(op->name)) continue;
    EXPECT_NE(covered.contains(op->name), WithoutCase().contains(op->name)) << op->name;
  }
}

// Every gradient has been compared with a peer's. Gradients that the finite differences of tests/engine/ops/ alone
// check are named here, with the reason.
TEST(ReferenceCensus, EveryDifferentiableOp_HasAGradientCaseOrIsNamedHere) {
  const std::set<std::string> without = {
      // Constant almost everywhere, or of no gradient by purpose: there is nothing to compare.
      "Ceil",
      "Floor",
      "FloorDiv",
      "OnesLike",
      "Rint",
      "Round",
      "Sign",
      "StopGradient",
      "TruncateDiv",
      "ZerosLike",
      // The peer has no gradient.
      "Mod",
      "TruncateMod",
      "AdjustContrastv2",
      // The same gradient as AddV2's.
      "Add",
      // No gradient passes: what is drawn is a constant.
      "StatelessRandomUniform",
      "StatelessRandomNormal",
      "StatelessTruncatedNormal",
      "StatelessRandomUniformV2",
      "StatelessRandomNormalV2",
      "StatelessTruncatedNormalV2",
      // Finite differences alone: TensorFlow takes the sparse places of its gradient from Python.
      "SparseToDense",
      // Finite differences alone: it came as an op that serves shapes.
      "DynamicStitch",
  };
  std::set<std::string> covered;
  for (const Json& c : Cases())
    if (c.contains("output_gradients")) covered.insert(c["op"].get<std::string>());
  for (const OpDef* op : OpRegistry::Global().All())
    if (op->gradient != nullptr && !WithoutCase().contains(op->name) && !op->name.starts_with("Resource") &&
        !PassesHandles(op->name)) {
      EXPECT_NE(covered.contains(op->name), without.contains(op->name)) << op->name;
    }
}

}  // namespace
}  // namespace rivulet
