// Forward values of ops against NumPy's, from numpy_reference.json (make_numpy_reference.py wrote it). Each case runs
// twice: with its inputs fed, and with all of them constants, which the program then folds.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "tests/testing/run_graph.h"

namespace rivulet {
namespace {

using Json = nlohmann::json;

const Json& Cases() {
  static const Json cases = [] {
    std::ifstream file(RIVULET_REFERENCE_FOLDER "/numpy_reference.json");
    return Json::parse(file);
  }();
  return cases;
}

template <typename T>
Tensor Filled(const Json& entry, Shape shape) {
  Tensor tensor(kDTypeOf<T>, std::move(shape));
  size_t i = 0;
  for (const Json& value : entry["values"]) tensor.flat<T>()[i++] = value.get<T>();
  return tensor;
}

Tensor TensorOf(const Json& entry) {
  const Shape shape(entry["shape"].get<std::vector<int64_t>>());
  switch (DTypeFromName(entry["dtype"].get<std::string>()).value_or(DType::kInvalid)) {
    case DType::kFloat32:
      return Filled<float>(entry, shape);
    case DType::kFloat64:
      return Filled<double>(entry, shape);
    case DType::kInt32:
      return Filled<int32_t>(entry, shape);
    case DType::kInt64:
      return Filled<int64_t>(entry, shape);
    case DType::kUint8:
      return Filled<uint8_t>(entry, shape);
    case DType::kBool:
      return Filled<bool>(entry, shape);
    default:
      ADD_FAILURE() << "unknown dtype in " << entry.dump();
      return {};
  }
}

AttrMap AttrsOf(const Json& entries) {
  AttrMap attrs;
  for (const auto& [name, value] : entries.items()) {
    if (value.is_boolean())
      attrs[name] = value.get<bool>();
    else if (value.is_number_integer())
      attrs[name] = value.get<int64_t>();
    else if (value.is_string())
      attrs[name] = value.get<std::string>();
    else if (value.is_array())
      attrs[name] = value.get<std::vector<int64_t>>();
    else
      attrs[name] = DTypeFromName(value["type"].get<std::string>()).value_or(DType::kInvalid);
  }
  return attrs;
}

// Sums of a few dozen products in float32 differ by their order; everything else by the last bits.
template <typename T>
void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance) {
  double largest = 1;
  for (T value : expected.flat<T>()) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < expected.flat<T>().size(); ++i) {
    const double a = static_cast<double>(actual.flat<T>()[i]), e = static_cast<double>(expected.flat<T>()[i]);
    EXPECT_LE(std::abs(a - e), tolerance * largest) << "element " << i << ": " << a << ", expected " << e;
  }
}

void ExpectEqual(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(Name(actual.dtype()), Name(expected.dtype()));
  ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
  if (actual.dtype() == DType::kFloat32) return ExpectNear<float>(actual, expected, 1e-6);
  if (actual.dtype() == DType::kFloat64) return ExpectNear<double>(actual, expected, 1e-14);
  const size_t bytes = expected.bytes();
  EXPECT_TRUE(bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0);
}

class NumpyReference : public ::testing::TestWithParam<size_t> {};

TEST_P(NumpyReference, ForwardValues_AreNumPys) {
  const Json& c = Cases()[GetParam()];
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
    ASSERT_TRUE(scope.status().ok()) << Message(scope.status());
    std::vector<std::string> fetches;
    for (int port = 0; port < static_cast<int>(node->outputs().size()); ++port)
      fetches.push_back(node->output(port).name());
    const auto outputs = testing::RunGraph(graph, feeds, fetches);
    ASSERT_TRUE(outputs.ok()) << Message(outputs.status());
    ASSERT_EQ(outputs->size(), c["outputs"].size());
    for (size_t i = 0; i < outputs->size(); ++i) ExpectEqual((*outputs)[i], TensorOf(c["outputs"][i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, NumpyReference, ::testing::Range(size_t{0}, Cases().size()),
                         [](const auto& info) { return Cases()[info.param]["name"].template get<std::string>(); });

// Sources, effects and random numbers have no forward value that NumPy could know.
TEST(NumpyReferenceCensus, EveryOp_HasACaseOrIsNamedHere) {
  const std::set<std::string> without = {
      "Const",
      "NoOp",
      "Placeholder",
      "PlaceholderWithDefault",
      "VarHandleOp",
      "ReadVariableOp",
      "AssignVariableOp",
      "AssignAddVariableOp",
      "AssignSubVariableOp",
      "ResourceApplyGradientDescent",
      "ResourceApplyMomentum",
      "RandomUniform",
      "RandomStandardNormal",
      "TruncatedNormal",
      "StatelessRandomUniform",
      "StatelessRandomNormal",
      "StatelessTruncatedNormal",
      "Add",  // the same kernel as AddV2
  };
  std::set<std::string> covered;
  for (const Json& c : Cases()) covered.insert(c["op"].get<std::string>());
  for (const OpDef* op : OpRegistry::Global().All())
    EXPECT_NE(covered.contains(op->name), without.contains(op->name)) << op->name;
}

}  // namespace
}  // namespace rivulet
