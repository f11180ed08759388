// Gradients of loops: against finite differences, and of recurrent layers written as loops against the fused ops.
#include <cmath>

#include "engine/gradients/gradients.h"
#include "engine/graph/function_builder.h"
#include "engine/ops/recurrent.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::CheckGradients;
using testing::Feeds;
using testing::GradientCheckOptions;
using testing::RandomTensor;

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

enum class Layer { kSimpleRnn, kGru, kLstm };

struct RnnInputs {
  Output x, kernel, recurrent, bias, lengths;
};

// One column block of a [batch, gates · units] tensor.
Output Gate(const Scope& s, Output all, int32_t gate, int32_t units) {
  const auto pair = [&](int32_t a, int32_t b) { return s.Const(Tensor::Of<int32_t>({2}, {a, b})); };
  return s.Op("Slice", {all, pair(0, gate * units), pair(-1, units)});
}

// The layer as tf.while_loop with TensorArrays would have it; x is [time, batch, features].
Output LoopLayer(const Scope& scope, Layer layer, const RnnInputs& in, int32_t time, int64_t batch, int32_t units) {
  const AttrMap floats = {{"element_dtype", DType::kFloat32}};
  const Output any = Int(scope, -1), steps = Int(scope, time);
  const Output list = scope.Op("TensorListFromTensor", {in.x, any});
  const Output out = scope.Op("TensorListReserve", {any, steps}, floats);
  const Output zero = scope.Const(Tensor(DType::kFloat32, Shape({batch, units})));
  const Outputs loop = WhileLoop(
      scope,
      [&](const Scope& s, Variables v) {
        return s.Op("Less", {v[0], steps});
      },
      [&](const Scope& s, Variables v) -> Outputs {
        const Output h = v[1], c = v[2];
        const Output x = s.Op("TensorListGetItem", {list, v[0], any}, floats);
        const Output projected = s.Op("AddV2", {s.Op("MatMul", {x, in.kernel}), in.bias});
        const Output recurrent = s.Op("MatMul", {h, in.recurrent});
        const auto part = [&](Output all, int32_t gate) { return Gate(s, all, gate, units); };
        Output new_h, new_c = c;
        if (layer == Layer::kSimpleRnn) {
          new_h = s.Op("Tanh", {s.Op("AddV2", {projected, recurrent})});
        } else if (layer == Layer::kLstm) {
          const Output all = s.Op("AddV2", {projected, recurrent});
          const Output i = s.Op("Sigmoid", {part(all, 0)}), f = s.Op("Sigmoid", {part(all, 1)}),
                       o = s.Op("Sigmoid", {part(all, 3)});
          new_c = s.Op("AddV2", {s.Op("Mul", {f, c}), s.Op("Mul", {i, s.Op("Tanh", {part(all, 2)})})});
          new_h = s.Op("Mul", {o, s.Op("Tanh", {new_c})});
        } else {
          const Output z = s.Op("Sigmoid", {s.Op("AddV2", {part(projected, 0), part(recurrent, 0)})});
          const Output r = s.Op("Sigmoid", {s.Op("AddV2", {part(projected, 1), part(recurrent, 1)})});
          const Output n = s.Op("Tanh", {s.Op("AddV2", {part(projected, 2), s.Op("Mul", {r, part(recurrent, 2)})})});
          const Output one = s.Const(Tensor::Scalar(1.0f));
          new_h = s.Op("AddV2", {s.Op("Mul", {z, h}), s.Op("Mul", {s.Op("Sub", {one, z}), n})});
        }
        // Beyond a sequence's length the state holds, and the output is zero.
        const Output runs = s.Op("ExpandDims", {s.Op("Less", {v[0], in.lengths}), Int(s, 1)});
        const Output written = s.Op("SelectV2", {runs, new_h, zero});
        return {Next(s, v[0]), s.Op("SelectV2", {runs, new_h, h}), s.Op("SelectV2", {runs, new_c, c}),
                s.Op("TensorListSetItem", {v[3], v[0], written})};
      },
      {Int(scope, 0), zero, zero, out});
  AttrMap stack = floats;
  stack["num_elements"] = int64_t{time};
  // The final state joins the loss as one more row.
  const Output rows = scope.Op("TensorListStack", {loop[3], any}, stack);
  return scope.Op("ConcatV2", {rows, scope.Op("ExpandDims", {loop[1], Int(scope, 0)}), Int(scope, 0)});
}

Output FusedLayer(const Scope& scope, Layer layer, const RnnInputs& in) {
  RecurrentInputs inputs;
  inputs.x = in.x;
  inputs.kernel = in.kernel;
  inputs.recurrent_kernel = in.recurrent;
  inputs.bias = in.bias;
  inputs.sequence_lengths = in.lengths;
  RecurrentOptions options;
  options.time_major = true;
  const RecurrentOutputs outputs = layer == Layer::kLstm  ? BuildLstm(scope, inputs, options)
                                   : layer == Layer::kGru ? BuildGru(scope, inputs, options)
                                                          : BuildSimpleRnn(scope, inputs, options);
  return scope.Op("ConcatV2",
                  {outputs.output, scope.Op("ExpandDims", {outputs.final_h, Int(scope, 0)}), Int(scope, 0)});
}

Tensor Floats(Shape shape, uint64_t seed) {
  const Tensor wide = RandomTensor(shape, seed);
  Tensor narrow(DType::kFloat32, std::move(shape));
  for (size_t i = 0; i < narrow.flat<float>().size(); ++i)
    narrow.flat<float>()[i] = static_cast<float>(wide.flat<double>()[i]);
  return narrow;
}

class LoopRnn : public ::testing::TestWithParam<Layer> {};

// Both compute in float32 and differ in the order of sums: of 5 features and 6 units forward, of up to 7 · 3 terms
// backward.
constexpr float kTolerance = 2e-5f;

TEST_P(LoopRnn, EqualsTheFusedLayer_OutputsAndGradients) {
  constexpr int32_t kTime = 7, kUnits = 6;
  constexpr int64_t kBatch = 3, kFeatures = 5;
  const int64_t gates = GetParam() == Layer::kLstm ? 4 : GetParam() == Layer::kGru ? 3 : 1;
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

INSTANTIATE_TEST_SUITE_P(
    Layers, LoopRnn, ::testing::Values(Layer::kSimpleRnn, Layer::kGru, Layer::kLstm), [](const auto& info) {
      return std::string(info.param == Layer::kSimpleRnn ? "SimpleRnn" : info.param == Layer::kGru ? "Gru" : "Lstm");
    });

}  // namespace
}  // namespace rivulet
