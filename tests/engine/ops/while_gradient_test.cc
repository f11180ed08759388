// Gradients of loops: compared with finite differences, and for recurrent layers as loops with the fused ops.
#include <cmath>

#include "engine/gradients/gradients.h"
#include "engine/graph/function_builder.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/loop_rnn.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::CheckGradients;
using testing::Feeds;
using testing::FusedLayer;
using testing::GradientCheckOptions;
using testing::LoopLayer;
using testing::RandomTensor;
using testing::RnnInputs;
using testing::RnnLayer;

using Outputs = std::vector<Output>;
using Variables = std::span<const Output>;

Output Int(const Scope& s, int32_t value) { return s.Const(Tensor::Scalar(value)); }
Output Next(const Scope& s, Output i) { return s.Op("AddV2", {i, Int(s, 1)}); }
Output Double(const Scope& s, double value) { return s.Const(Tensor::Scalar(value)); }

// h = tanh(h · w + x), `count` times, elementwise.
BuildFn Counted(int32_t count) {
  return [=](const Scope& scope, const Outputs& in) {
    const Outputs loop = WhileLoop(
        scope,
        [&](const Scope& s, Variables v) {
          return s.Op("Less", {v[0], Int(s, count)});
        },
        [&](const Scope& s, Variables v) -> Outputs {
          return {Next(s, v[0]), s.Op("Tanh", {s.Op("AddV2", {s.Op("Mul", {v[1], in[1]}), in[0]})})};
        },
        {Int(scope, 0), in[0]});
    return Outputs{loop[1]};
  };
}

struct Case {
  std::string name;
  std::vector<Tensor> inputs;
  BuildFn build;
  bool second_order = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LoopGradient : public ::testing::TestWithParam<Case> {};

TEST_P(LoopGradient, EqualsFiniteDifference) {
  GradientCheckOptions options;
  options.second_order = GetParam().second_order;
  EXPECT_OK(CheckGradients(GetParam().inputs, GetParam().build, options));
}

std::vector<Case> Cases() {
  const Tensor x = RandomTensor({2, 3}, 1), w = RandomTensor({2, 3}, 2, 0.5, 1);
  std::vector<Case> cases;
  cases.push_back({"Counted", {x, w}, Counted(4), true});
  cases.push_back({"NoIterations", {x, w}, Counted(0)});
  cases.push_back({"OneIteration", {x, w}, Counted(1)});
  // While the sum of squares is below 20, h grows; some five times.
  cases.push_back({"DataDependent", {x, w}, [](const Scope& scope, const Outputs& in) {
                     const Outputs loop = WhileLoop(
                         scope,
                         [&](const Scope& s, Variables v) {
                           const Output squares = s.Op("Square", {v[0]});
                           const Output all = s.Op("Range", {Int(s, 0), s.Op("Rank", {squares}), Int(s, 1)});
                           return s.Op("Less", {s.Op("Sum", {squares, all}), Double(s, 20)});
                         },
                         [&](const Scope& s, Variables v) -> Outputs {
                           return {s.Op("AddV2", {s.Op("Mul", {v[0], Double(s, 1.5)}), in[1]})};
                         },
                         {in[0]});
                     return Outputs{loop[0]};
                   }});
  // An inner loop of as many steps as the outer has done, and a branch that takes turns.
  cases.push_back({"NestedWithBranch", {x, w}, [](const Scope& scope, const Outputs& in) {
                     const Outputs loop = WhileLoop(
                         scope,
                         [&](const Scope& s, Variables v) {
                           return s.Op("Less", {v[0], Int(s, 3)});
                         },
                         [&](const Scope& s, Variables v) -> Outputs {
                           const Outputs inner = WhileLoop(
                               s,
                               [&](const Scope& t, Variables u) {
                                 return t.Op("Less", {u[0], v[0]});
                               },
                               [&](const Scope& t, Variables u) -> Outputs {
                                 return {Next(t, u[0]), t.Op("Tanh", {t.Op("Mul", {u[1], in[1]})})};
                               },
                               {Int(s, 0), v[1]});
                           const Output odd = s.Op("Equal", {v[0], Int(s, 1)});
                           const Output h = Cond(
                               s, odd,
                               [&](const Scope& t) -> Outputs {
                                 return {t.Op("Mul", {inner[1], in[0]})};
                               },
                               [&](const Scope& t) -> Outputs {
                                 return {t.Op("AddV2", {inner[1], in[0]})};
                               })[0];
                           return {Next(s, v[0]), h};
                         },
                         {Int(scope, 0), in[0]});
                     return Outputs{loop[1]};
                   }});
  // Rows of x from a list, one after another, into a list.
  cases.push_back({"Lists", {RandomTensor({4, 3}, 3), RandomTensor({3}, 4)}, [](const Scope& scope, const Outputs& in) {
                     const AttrMap doubles = {{"element_dtype", DType::kFloat64}};
                     const Output any = Int(scope, -1);
                     const Output rows = scope.Op("TensorListFromTensor", {in[0], any});
                     const Output four = Int(scope, 4);
                     const Output out = scope.Op("TensorListReserve", {any, four}, doubles);
                     const Outputs loop = WhileLoop(
                         scope,
                         [&](const Scope& s, Variables v) {
                           return s.Op("Less", {v[0], four});
                         },
                         [&](const Scope& s, Variables v) -> Outputs {
                           const Output row = s.Op("TensorListGetItem", {rows, v[0], Int(s, -1)}, doubles);
                           const Output h = s.Op("Tanh", {s.Op("AddV2", {s.Op("Mul", {v[1], in[1]}), row})});
                           return {Next(s, v[0]), h, s.Op("TensorListSetItem", {v[2], v[0], h})};
                         },
                         {Int(scope, 0), in[1], out});
                     AttrMap stack = doubles;
                     stack["num_elements"] = int64_t{4};
                     return Outputs{scope.Op("TensorListStack", {loop[2], any}, stack), loop[1]};
                   }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Loops, LoopGradient, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// ---- Recurrent layers ----------------------------------------------------------------------------------------------

Tensor Floats(Shape shape, uint64_t seed) {
  const Tensor wide = RandomTensor(shape, seed);
  Tensor narrow(DType::kFloat32, std::move(shape));
  for (size_t i = 0; i < narrow.flat<float>().size(); ++i)
    narrow.flat<float>()[i] = static_cast<float>(wide.flat<double>()[i]);
  return narrow;
}

class LoopRnn : public ::testing::TestWithParam<RnnLayer> {};

// Both compute in float32 and differ in the order of sums: of 5 features and 6 units forward, of up to 7 · 3 terms
// backward.
constexpr float kTolerance = 2e-5f;

TEST_P(LoopRnn, EqualsTheFusedLayer_OutputsAndGradients) {
  constexpr int32_t kTime = 7, kUnits = 6;
  constexpr int64_t kBatch = 3, kFeatures = 5;
  const int64_t gates = GetParam() == RnnLayer::kLstm ? 4 : GetParam() == RnnLayer::kGru ? 3 : 1;
  Graph graph;
  const Scope scope(graph);
  RnnInputs in;
  in.x = scope.Placeholder("x", DType::kFloat32, {kTime, kBatch, kFeatures});
  in.kernel = scope.Placeholder("kernel", DType::kFloat32, {kFeatures, gates * kUnits});
  in.recurrent = scope.Placeholder("recurrent", DType::kFloat32, {kUnits, gates * kUnits});
  in.bias = scope.Placeholder("bias", DType::kFloat32, {gates * kUnits});
  in.lengths = scope.Placeholder("lengths", DType::kInt32, {kBatch});
  std::vector<std::string> fetches;
  for (const bool fused : {true, false}) {
    const Output y =
        fused ? FusedLayer(scope, GetParam(), in) : LoopLayer(scope, GetParam(), in, kTime, kBatch, kUnits);
    const Output weights = scope.Const(Floats({kTime + 1, kBatch, kUnits}, 9));
    const Output axes = scope.Const(Tensor::Of<int32_t>({3}, {0, 1, 2}));
    const Output loss = scope.Op("Sum", {scope.Op("Mul", {scope.Op("Mul", {y, y}), weights}), axes});
    ASSERT_OK(scope.status());
    fetches.push_back(y.name());
    ASSERT_OK_AND_ASSIGN(const Outputs gradients,
                         ComputeGradients(graph, loss, Outputs{in.x, in.kernel, in.recurrent, in.bias}));
    for (const Output& gradient : gradients) fetches.push_back(gradient.name());
  }
  const Feeds feeds = {{"x", Floats({kTime, kBatch, kFeatures}, 1)},
                       {"kernel", Floats({kFeatures, gates * kUnits}, 2)},
                       {"recurrent", Floats({kUnits, gates * kUnits}, 3)},
                       {"bias", Floats({gates * kUnits}, 4)},
                       {"lengths", Tensor::Of<int32_t>({kBatch}, {kTime, 0, 4})}};
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, testing::RunGraph(graph, feeds, fetches));
  const size_t half = values.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    ASSERT_EQ(values[half + i].shape(), values[i].shape()) << i;
    for (size_t at = 0; at < values[i].flat<float>().size(); ++at) {
      const float fused = values[i].flat<float>()[at];
      EXPECT_NEAR(values[half + i].flat<float>()[at], fused, kTolerance * std::max(1.0f, std::abs(fused)))
          << fetches[i] << " element " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LoopRnn, ::testing::Values(RnnLayer::kSimpleRnn, RnnLayer::kGru, RnnLayer::kLstm),
                         [](const auto& info) {
                           return std::string(info.param == RnnLayer::kSimpleRnn ? "SimpleRnn"
                                              : info.param == RnnLayer::kGru     ? "Gru"
                                                                                 : "Lstm");
                         });

}  // namespace
}  // namespace rivulet
