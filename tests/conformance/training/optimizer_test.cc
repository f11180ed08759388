// The ops that change variables, element by element against optimizer_reference.json (make_optimizer_reference.py wrote
// it from TensorFlow and PyTorch): three steps from given slots. A case:
//
//   {"name", "op", "dtype", "attrs", "variables": [[…] of the variable and its slots], "scalars": [[…] of each step],
//    "gradients": [[…] of each step], "after": [[…] of the variable and its slots]}
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

const Json& OptimizerCases() {
  static const Json cases = testing::ReadJson(RIVULET_REFERENCE_FOLDER "/optimizer_reference.json");
  return cases;
}

template <typename T>
Tensor VectorOf(const Json& values) {
  Tensor tensor(kDTypeOf<T>, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.flat<T>()[i] = static_cast<T>(values[i].get<double>());
  return tensor;
}

template <typename T>
void Check(const Json& c, double tolerance) {
  Graph graph;
  const Scope scope(graph);
  std::vector<Output> inputs;
  const auto length = static_cast<int64_t>(c["gradients"][0].size());
  std::vector<std::string> names;
  for (size_t i = 0; i < c["variables"].size(); ++i) {
    names.push_back(fmt::format("variable{}", i));
    inputs.push_back(
        scope.Op("VarHandleOp", {}, {{"dtype", kDTypeOf<T>}, {"shape", Shape{length}}, {"shared_name", names.back()}}));
  }
  for (size_t i = 0; i < c["scalars"][0].size(); ++i)
    inputs.push_back(scope.Placeholder(fmt::format("scalar{}", i), kDTypeOf<T>, Shape{}));
  const Output gradient = scope.Placeholder("gradient", kDTypeOf<T>, Shape{length});
  // The gradient is the last input, but for momentum's, which stands behind it.
  if (c["op"] == "ResourceApplyMomentum")
    inputs.insert(inputs.end() - 1, gradient);
  else
    inputs.push_back(gradient);
  AttrMap attrs;
  for (const auto& [name, value] : c["attrs"].items()) attrs[name] = value.template get<bool>();
  scope.AddNode(c["op"].get<std::string>(), inputs, attrs, "step");
  ASSERT_OK(scope.status());

  const auto session = Session::Create(std::move(graph));
  ASSERT_OK(session);
  for (size_t i = 0; i < names.size(); ++i)
    ASSERT_OK((*session)->SetVariable(names[i], VectorOf<T>(c["variables"][i])));
  for (size_t step = 0; step < c["gradients"].size(); ++step) {
    Session::Feeds feeds = {{"gradient", VectorOf<T>(c["gradients"][step])}};
    for (size_t i = 0; i < c["scalars"][step].size(); ++i)
      feeds.emplace_back(fmt::format("scalar{}", i),
                         Tensor::Scalar(static_cast<T>(c["scalars"][step][i].get<double>())));
    const auto ran = (*session)->Run(feeds, {}, {"step"});
    ASSERT_OK(ran);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const auto actual = (*session)->GetVariable(names[i]);
    ASSERT_OK(actual);
    for (size_t k = 0; k < c["after"][i].size(); ++k) {
      const double expected = c["after"][i][k].get<double>(), is = static_cast<double>(actual->flat<T>()[k]);
      // Relative, and absolute where a value has cancelled.
      EXPECT_LE(std::abs(is - expected), tolerance * std::max(std::abs(expected), 0.1))
          << names[i] << "[" << k << "] is " << is << ", expected " << expected;
    }
  }
}

class OptimizerReference : public ::testing::TestWithParam<size_t> {};

TEST_P(OptimizerReference, ThreeSteps_AreThePeers) {
  const Json& c = OptimizerCases()[GetParam()];
  if (c["dtype"] == "float32")
    Check<float>(c, 2e-6);
  else
    Check<double>(c, 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Ops, OptimizerReference, ::testing::Range(size_t{0}, OptimizerCases().size()),
                         [](const auto& info) {
                           return OptimizerCases()[info.param]["name"].template get<std::string>();
                         });

TEST(OptimizerReferenceCensus, EveryOptimizerOp_HasACaseOfEachType) {
  std::set<std::string> covered;
  for (const Json& c : OptimizerCases())
    covered.insert(fmt::format("{} {}", c["op"].get<std::string>(), c["dtype"].get<std::string>()));
  for (const OpDef* op : OpRegistry::Global().All()) {
    if (!op->name.starts_with("ResourceApply")) continue;
    EXPECT_TRUE(covered.contains(op->name + " float32")) << op->name;
    EXPECT_TRUE(covered.contains(op->name + " float64")) << op->name;
  }
}

}  // namespace
}  // namespace rivulet
