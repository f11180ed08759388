// The ops that change rows of variables against rows_reference.json (make_rows_reference.py wrote it from TensorFlow).
// A case: {"name", "op", "dtype", "attrs", "variables": [TENSOR of the variable and its slots], "inputs": [TENSOR…],
// "indices": TENSOR with "dtype", "after": [TENSOR of the variable and its slots]}, TENSOR = {"shape", "values"}. The
// indices are the op's input of that name.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "dataflow/session/session.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "tests/testing/reference_json.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::Json;

const Json& RowCases() {
  static const Json cases = testing::ReadJson(RIVULET_REFERENCE_FOLDER "/rows_reference.json");
  return cases;
}

template <typename T>
Tensor Values(const Json& entry) {
  Tensor tensor(kDTypeOf<T>, Shape(entry["shape"].get<std::vector<int64_t>>()));
  for (size_t i = 0; i < tensor.flat<T>().size(); ++i)
    tensor.flat<T>()[i] = static_cast<T>(entry["values"][i].get<double>());
  return tensor;
}

template <typename T>
void CheckRows(const Json& c, double tolerance) {
  Graph graph;
  const Scope scope(graph);
  std::vector<Output> inputs;
  for (size_t i = 0; i < c["variables"].size(); ++i)
    inputs.push_back(scope.Op("VarHandleOp", {},
                              {{"dtype", kDTypeOf<T>},
                               {"shape", Values<T>(c["variables"][i]).shape()},
                               {"shared_name", fmt::format("variable{}", i)}}));
  const OpDef* op = OpRegistry::Global().Find(c["op"].get<std::string>());
  ASSERT_NE(op, nullptr);
  size_t next = 0;
  for (size_t i = inputs.size(); i < op->inputs.size(); ++i) {
    if (op->inputs[i].name == "indices")
      inputs.push_back(scope.Const(c["indices"]["dtype"] == "int64" ? Values<int64_t>(c["indices"])
                                                                    : Values<int32_t>(c["indices"])));
    else
      inputs.push_back(scope.Const(Values<T>(c["inputs"][next++])));
  }
  AttrMap attrs;
  for (const auto& [name, value] : c["attrs"].items()) attrs[name] = value.template get<bool>();
  scope.AddNode(op->name, inputs, attrs, "step");
  ASSERT_OK(scope.status());
  const auto session = Session::Create(std::move(graph));
  ASSERT_OK(session);
  for (size_t i = 0; i < c["variables"].size(); ++i)
    ASSERT_OK((*session)->SetVariable(fmt::format("variable{}", i), Values<T>(c["variables"][i])));
  const auto ran = (*session)->Run({}, {}, {"step"});
  ASSERT_OK(ran);
  for (size_t i = 0; i < c["after"].size(); ++i) {
    const auto actual = (*session)->GetVariable(fmt::format("variable{}", i));
    ASSERT_OK(actual);
    const Tensor expected = Values<T>(c["after"][i]);
    for (size_t k = 0; k < expected.flat<T>().size(); ++k)
      EXPECT_NEAR(actual->flat<T>()[k], expected.flat<T>()[k], tolerance) << "variable " << i << ", element " << k;
  }
}

class RowsReference : public ::testing::TestWithParam<size_t> {};

TEST_P(RowsReference, VariablesAfterwards_AreThePeers) {
  const Json& c = RowCases()[GetParam()];
  if (c["dtype"] == "float32")
    CheckRows<float>(c, 1e-6);
  else
    CheckRows<double>(c, 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Ops, RowsReference, ::testing::Range(size_t{0}, RowCases().size()),
                         [](const auto& info) { return RowCases()[info.param]["name"].template get<std::string>(); });

TEST(RowsReferenceCensus, EveryOpOnRows_HasACase) {
  std::set<std::string> covered;
  for (const Json& c : RowCases()) covered.insert(c["op"].get<std::string>());
  for (const OpDef* op : OpRegistry::Global().All())
    if (op->name.starts_with("ResourceScatter") || op->name.starts_with("ResourceSparse")) {
      EXPECT_TRUE(covered.contains(op->name)) << op->name;
    }
}

}  // namespace
}  // namespace rivulet
