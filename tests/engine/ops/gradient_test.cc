// The gradient of every differentiable op against finite differences in float64: with all shapes known when it is
// built, with an unknown batch, and with ranks alone; and the gradient of that gradient.
#include <algorithm>
#include <cmath>

#include "engine/gradients/gradients.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::CheckGradients;
using testing::DistinctTensor;
using testing::GradientCheckOptions;
using testing::Ints;
using testing::KnownShapes;
using testing::RandomTensor;
using testing::StatusIs;

using Outputs = std::vector<Output>;

Tensor Int(int32_t value) { return Tensor::Scalar(value); }

// One op of floating inputs, perhaps with constant inputs after them.
BuildFn Op(std::string op, AttrMap attrs = {}, std::vector<Tensor> constants = {}) {
  return [=](const Scope& scope, const Outputs& x) {
    Outputs inputs = x;
    for (const Tensor& constant : constants) inputs.push_back(scope.Const(constant));
    Node* node = scope.AddNode(op, inputs, attrs);
    Outputs outputs;
    for (int port = 0; node != nullptr && port < static_cast<int>(node->outputs().size()); ++port)
      outputs.push_back(node->output(port));
    return outputs;
  };
}

struct Case {
  std::string name;
  std::vector<Tensor> inputs;
  BuildFn build;
  GradientCheckOptions options = {};
};

// What gtest prints for a case.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

GradientCheckOptions Both() {
  GradientCheckOptions options;
  options.second_order = true;
  return options;
}
// Ops whose gradient has no gradient.
GradientCheckOptions FirstOrder() { return {}; }

Tensor X(Shape shape, uint64_t seed = 1) { return RandomTensor(std::move(shape), seed); }
Tensor Positive(Shape shape, uint64_t seed = 2) { return RandomTensor(std::move(shape), seed, 0.5, 2); }

class OpGradient : public ::testing::TestWithParam<Case> {};

TEST_P(OpGradient, EqualsFiniteDifference) {
  const Case& c = GetParam();
  const Status status = CheckGradients(c.inputs, c.build, c.options);
  EXPECT_OK(status);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

std::vector<Case> BroadcastCases() {
  std::vector<Case> cases;
  const std::vector<std::pair<std::string, std::pair<Shape, Shape>>> shapes = {
      {"Same", {{2, 3}, {2, 3}}},     {"ScalarLeft", {{}, {2, 3}}}, {"ScalarRight", {{2, 3}, {}}},
      {"Trailing", {{2, 3}, {3}}},    {"Column", {{2, 3}, {2, 1}}}, {"Outer", {{2, 1}, {1, 3}}},
      {"Middle", {{2, 1, 2}, {3, 1}}}};
  for (const std::string op : {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "SquaredDifference", "Pow"})
    for (const auto& [name, pair] : shapes)
      cases.push_back({op + name, {Positive(pair.first, 3), Positive(pair.second, 4)}, Op(op), Both()});
  for (const std::string op : {"Maximum", "Minimum"})
    for (const auto& [name, pair] : shapes)
      cases.push_back({op + name, {X(pair.first, 5), X(pair.second, 6)}, Op(op), Both()});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Broadcast, OpGradient, ::testing::ValuesIn(BroadcastCases()), CaseName);

std::vector<Case> UnaryCases() {
  std::vector<Case> cases;
  for (const std::string op : {"Neg", "Abs", "Square", "Exp", "Tanh", "Sigmoid", "Relu", "Softplus", "Identity", "Sign",
                               "Floor", "L2Loss", "ZerosLike", "OnesLike"}) {
    cases.push_back({op, {DistinctTensor({2, 3}, 7)}, Op(op), Both()});
  }
  for (const std::string op : {"Sqrt", "Rsqrt", "Log", "Log1p"})
    cases.push_back({op, {Positive({2, 3})}, Op(op), Both()});
  for (const std::string op : {"TanhGrad", "SigmoidGrad"})
    cases.push_back({op, {X({2, 3}, 8), X({2, 3}, 9)}, Op(op), Both()});
  for (const std::string op : {"SoftplusGrad", "ReluGrad"})
    cases.push_back({op, {X({2, 3}, 8), DistinctTensor({2, 3}, 9)}, Op(op), Both()});
  for (const std::string op : {"SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"})
    cases.push_back({op, {Positive({2, 3}, 8), X({2, 3}, 9)}, Op(op), Both()});
  cases.push_back({"AddN", {X({2, 3}, 1), X({2, 3}, 2), X({2, 3}, 3)}, Op("AddN"), Both()});
  cases.push_back({"CastThroughFloat64", {X({2, 3})}, Op("Cast", {{"DstT", DType::kFloat64}}), Both()});
  cases.push_back({"SelectV2",
                   {X({2, 3}, 1), X({3}, 2)},
                   [](const Scope& s, const Outputs& x) {
                     const Output condition = s.Const(Tensor::Of<bool>({2, 1}, {true, false}));
                     return Outputs{s.Op("SelectV2", {condition, x[0], x[1]})};
                   },
                   Both()});
  cases.push_back({"UsedTwice",
                   {X({2, 3})},
                   [](const Scope& s, const Outputs& x) {
                     return Outputs{s.Op("Mul", {x[0], s.Op("AddV2", {x[0], s.Op("Exp", {x[0]})})})};
                   },
                   Both()});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Unary, OpGradient, ::testing::ValuesIn(UnaryCases()), CaseName);

std::vector<Case> ReductionCases() {
  std::vector<Case> cases;
  const std::vector<std::pair<std::string, std::vector<int32_t>>> axes = {
      {"First", {0}}, {"Last", {-1}}, {"Middle", {1}}, {"All", {0, 1, 2}}, {"Outer", {2, 0}}, {"None", {}}};
  for (const std::string op : {"Sum", "Mean", "Max", "Min"})
    for (const auto& [name, list] : axes)
      for (bool keep_dims : {false, true})
        cases.push_back({op + name + (keep_dims ? "Keep" : ""),
                         {DistinctTensor({2, 3, 2}, 10)},
                         Op(op, {{"keep_dims", keep_dims}}, {Ints(list)}),
                         Both()});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Reduction, OpGradient, ::testing::ValuesIn(ReductionCases()), CaseName);

std::vector<Case> MovementCases() {
  std::vector<Case> cases = {
      {"Reshape", {X({2, 6})}, Op("Reshape", {}, {Ints({3, -1, 2})}), Both()},
      {"Squeeze", {X({2, 1, 3})}, Op("Squeeze", {{"squeeze_dims", std::vector<int64_t>{1}}}), Both()},
      {"ExpandDims", {X({2, 3})}, Op("ExpandDims", {}, {Int(-1)}), Both()},
      {"BroadcastTo", {X({3, 1})}, Op("BroadcastTo", {}, {Ints({2, 3, 4})}), Both()},
      {"Transpose", {X({2, 3, 4})}, Op("Transpose", {}, {Ints({2, 0, 1})}), Both()},
      {"SparseToDense",
       {X({3}), X({}, 2)},
       [](const Scope& scope, const Outputs& x) -> Outputs {
         const Output places = scope.Const(Tensor::Of<int32_t>({3, 2}, {0, 1, 2, 0, 2, 3}));
         return {scope.Op("SparseToDense", {places, scope.Const(Ints({3, 4})), x[0], x[1]})};
       },
       FirstOrder()},
      {"DynamicStitch",
       {X({2, 3}), X({1, 3}, 2)},
       [](const Scope& scope, const Outputs& x) -> Outputs {
         return {scope.Op("DynamicStitch", {scope.Const(Ints({0, 3})), scope.Const(Ints({1})), x[0], x[1]})};
       },
       Both()},
      {"ConcatFirst", {X({2, 3}, 1), X({1, 3}, 2)}, Op("ConcatV2", {}, {Int(0)}), Both()},
      {"ConcatLast", {X({2, 3}, 1), X({2, 1}, 2), X({2, 2}, 3)}, Op("ConcatV2", {}, {Int(-1)}), Both()},
      {"ConcatOne", {X({2, 3}, 1)}, Op("ConcatV2", {}, {Int(0)}), Both()},
      {"Pack", {X({2, 3}, 1), X({2, 3}, 2)}, Op("Pack", {{"axis", int64_t{1}}}), Both()},
      {"Unpack", {X({2, 3})}, Op("Unpack", {{"num", int64_t{3}}, {"axis", int64_t{1}}}), Both()},
      {"Slice", {X({3, 4})}, Op("Slice", {}, {Ints({1, 1}), Ints({2, 2})}), Both()},
      {"SliceRest", {X({3, 4})}, Op("Slice", {}, {Ints({0, 1}), Ints({-1, 2})}), Both()},
      {"StridedSlice",
       {X({3, 5})},
       Op("StridedSlice", {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}},
          {Ints({0, 3}), Ints({0, 0}), Ints({2, -2})}),
       Both()},
      {"StridedSliceShrinkNew",
       {X({3, 5})},
       Op("StridedSlice", {{"shrink_axis_mask", int64_t{1}}, {"new_axis_mask", int64_t{2}}},
          {Ints({-1, 0, 1}), Ints({0, 0, 4}), Ints({1, 1, 1})}),
       Both()},
      {"StridedSliceEllipsis",
       {X({2, 3, 4})},
       Op("StridedSlice", {{"ellipsis_mask", int64_t{1}}, {"shrink_axis_mask", int64_t{2}}},
          {Ints({0, 2}), Ints({0, 3}), Ints({1, 1})}),
       Both()},
      {"Pad", {X({2, 3})}, Op("Pad", {}, {Tensor::Of<int32_t>({2, 2}, {1, 0, 2, 1})}), Both()},
      {"Tile", {X({2, 3})}, Op("Tile", {}, {Ints({2, 3})}), Both()},
      {"GatherFirst", {X({4, 3})}, Op("GatherV2", {}, {Ints({2, 0, 2}), Int(0)}), Both()},
      {"GatherLast", {X({2, 4, 3})}, Op("GatherV2", {}, {Tensor::Of<int32_t>({2, 2}, {1, 0, 2, 2}), Int(-1)}), Both()},
      {"GatherMiddle", {X({2, 4, 3})}, Op("GatherV2", {}, {Ints({3, 3}), Int(1)}), Both()},
      {"UnsortedSegmentSum", {X({4, 3})}, Op("UnsortedSegmentSum", {}, {Ints({1, -1, 0, 1}), Int(3)}), Both()},
  };
  cases.push_back({"Split",
                   {X({2, 4})},
                   [](const Scope& s, const Outputs& x) {
                     Node* split = s.AddNode("Split", {s.Const(Int(1)), x[0]}, {{"num_split", int64_t{2}}});
                     // One part alone: the other's gradient is zeros.
                     return split == nullptr ? Outputs{} : Outputs{s.Op("Square", {split->output(1)})};
                   },
                   Both()});
  cases.push_back({"Fill",
                   {X({})},
                   [](const Scope& s, const Outputs& x) {
                     return Outputs{s.Op("Fill", {s.Const(Ints({2, 3})), x[0]})};
                   },
                   Both()});
  cases.push_back({"StridedSliceGrad",
                   {X({2})},
                   [](const Scope& s, const Outputs& x) {
                     return Outputs{s.Op("StridedSliceGrad", {s.Const(Ints({5})), s.Const(Ints({4})),
                                                              s.Const(Ints({0})), s.Const(Ints({-2})), x[0]})};
                   },
                   Both()});
  cases.push_back({"TransposeOfUnknownPermutation",
                   {X({2, 3})},
                   [](const Scope& s, const Outputs& x) {
                     const Output perm = s.Op("InvertPermutation", {s.Const(Ints({1, 0}))});
                     return Outputs{s.Op("Transpose", {x[0], perm})};
                   },
                   Both()});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Movement, OpGradient, ::testing::ValuesIn(MovementCases()), CaseName);

std::vector<Case> LayerCases() {
  std::vector<Case> cases;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const std::string suffix = std::string(ta ? "T" : "N") + (tb ? "T" : "N");
      const Shape a = ta ? Shape{3, 2} : Shape{2, 3}, b = tb ? Shape{4, 3} : Shape{3, 4};
      cases.push_back(
          {"MatMul" + suffix, {X(a, 1), X(b, 2)}, Op("MatMul", {{"transpose_a", ta}, {"transpose_b", tb}}), Both()});
      const Shape x = ta ? Shape{2, 3, 2} : Shape{2, 2, 3}, y = tb ? Shape{1, 4, 3} : Shape{1, 3, 4};
      cases.push_back(
          {"BatchMatMulV2" + suffix, {X(x, 1), X(y, 2)}, Op("BatchMatMulV2", {{"adj_x", ta}, {"adj_y", tb}}), Both()});
    }
  cases.push_back({"BiasAdd", {X({2, 3}, 1), X({3}, 2)}, Op("BiasAdd"), Both()});
  cases.push_back({"BiasAddImage", {X({2, 2, 2, 3}, 1), X({3}, 2)}, Op("BiasAdd"), Both()});
  cases.push_back({"BiasAddChannelsFirst",
                   {X({2, 3, 2, 2}, 1), X({3}, 2)},
                   Op("BiasAdd", {{"data_format", std::string("NCHW")}}),
                   Both()});
  cases.push_back({"Softmax", {X({2, 4})}, Op("Softmax"), Both()});
  cases.push_back({"LogSoftmax", {X({2, 3, 4})}, Op("LogSoftmax"), Both()});
  cases.push_back({"SparseSoftmaxCrossEntropyWithLogits",
                   {X({3, 4})},
                   [](const Scope& s, const Outputs& x) {
                     Node* node = s.AddNode("SparseSoftmaxCrossEntropyWithLogits",
                                            {x[0], s.Const(Tensor::Of<int64_t>({3}, {2, 0, 3}))});
                     return node == nullptr ? Outputs{} : Outputs{node->output(0), node->output(1)};
                   },
                   Both()});
  // Labels are probabilities: the gradient by features counts on it.
  cases.push_back({"SoftmaxCrossEntropyWithLogits",
                   {X({3, 4}, 1), X({3, 4}, 2)},
                   [](const Scope& s, const Outputs& x) {
                     Node* node = s.AddNode("SoftmaxCrossEntropyWithLogits", {x[0], s.Op("Softmax", {x[1]})});
                     return node == nullptr ? Outputs{} : Outputs{node->output(0), node->output(1)};
                   },
                   Both()});

  const auto window = [](std::string padding, std::vector<int64_t> strides, std::vector<int64_t> dilations,
                         std::vector<int64_t> paddings = {}, std::string format = "NHWC") {
    return AttrMap{{"padding", std::move(padding)},
                   {"strides", std::move(strides)},
                   {"dilations", std::move(dilations)},
                   {"explicit_paddings", std::move(paddings)},
                   {"data_format", std::move(format)}};
  };
  const std::vector<int64_t> one = {1, 1, 1, 1}, two = {1, 2, 2, 1};
  const Tensor image = X({2, 5, 4, 2}, 1), filter = X({3, 2, 2, 3}, 2);
  cases.push_back({"Conv2DSame", {image, filter}, Op("Conv2D", window("SAME", one, one)), Both()});
  cases.push_back({"Conv2DValid", {image, filter}, Op("Conv2D", window("VALID", one, one)), Both()});
  cases.push_back({"Conv2DSameStrided", {image, filter}, Op("Conv2D", window("SAME", two, one)), Both()});
  cases.push_back({"Conv2DValidStrided", {image, filter}, Op("Conv2D", window("VALID", {1, 2, 1, 1}, one)), Both()});
  cases.push_back({"Conv2DDilated", {image, filter}, Op("Conv2D", window("SAME", one, two)), Both()});
  cases.push_back({"Conv2DExplicit",
                   {image, filter},
                   Op("Conv2D", window("EXPLICIT", one, one, {0, 0, 1, 2, 0, 1, 0, 0})),
                   Both()});
  cases.push_back({"Conv2DChannelsFirst",
                   {X({2, 2, 5, 4}, 1), filter},
                   Op("Conv2D", window("SAME", one, one, {}, "NCHW")),
                   Both()});
  cases.push_back(
      {"Conv2DGrouped", {X({2, 5, 4, 4}, 1), X({3, 2, 2, 6}, 2)}, Op("Conv2D", window("SAME", two, one)), Both()});
  cases.push_back({"Conv2DGroupedChannelsFirst",
                   {X({2, 4, 5, 4}, 1), X({3, 2, 2, 6}, 2)},
                   Op("Conv2D", window("VALID", one, {1, 1, 2, 1}, {}, "NCHW")),
                   Both()});
  const Tensor depthwise = X({3, 2, 2, 3}, 5);
  for (const std::string padding : {"SAME", "VALID"}) {
    cases.push_back(
        {"Depthwise" + padding, {image, depthwise}, Op("DepthwiseConv2dNative", window(padding, one, one)), Both()});
    cases.push_back({"Depthwise" + padding + "Strided",
                     {image, depthwise},
                     Op("DepthwiseConv2dNative", window(padding, two, one)),
                     Both()});
  }
  cases.push_back(
      {"DepthwiseDilated", {image, depthwise}, Op("DepthwiseConv2dNative", window("SAME", one, two)), Both()});
  cases.push_back({"DepthwiseExplicit",
                   {image, depthwise},
                   Op("DepthwiseConv2dNative", window("EXPLICIT", one, one, {0, 0, 1, 2, 0, 1, 0, 0})),
                   Both()});
  cases.push_back({"DepthwiseChannelsFirst",
                   {X({2, 2, 5, 4}, 1), depthwise},
                   Op("DepthwiseConv2dNative", window("SAME", {1, 1, 2, 2}, one, {}, "NCHW")),
                   Both()});
  const auto pool = [](std::string padding, std::vector<int64_t> size, std::vector<int64_t> strides,
                       std::string format = "NHWC") {
    return AttrMap{{"padding", std::move(padding)},
                   {"ksize", std::move(size)},
                   {"strides", std::move(strides)},
                   {"data_format", std::move(format)}};
  };
  const auto with = [](AttrMap attrs, const AttrMap& more) {
    for (const auto& [name, value] : more) attrs[name] = value;
    return attrs;
  };
  const std::vector<int64_t> three = {1, 3, 3, 1}, last_two = {1, 1, 2, 2}, last_three = {1, 1, 3, 3};
  const Tensor distinct = DistinctTensor({2, 5, 4, 2}, 3), channels_first = DistinctTensor({2, 2, 4, 5}, 4);
  const AttrMap explicit_padding = {{"explicit_paddings", std::vector<int64_t>{0, 0, 1, 2, 0, 1, 0, 0}}};
  const AttrMap padding_of_our_own = {{"_explicit_paddings", explicit_padding.at("explicit_paddings")}};
  for (const std::string op : {"MaxPool", "AvgPool"}) {
    const Tensor& x = op == "MaxPool" ? distinct : image;
    const auto add = [&](const std::string& name, const Tensor& input, AttrMap attrs) {
      cases.push_back({op + name, {input}, Op(op, std::move(attrs)), Both()});
    };
    add("Same", x, pool("SAME", two, two));
    add("Valid", x, pool("VALID", two, two));
    add("Overlapping", x, pool("SAME", three, one));
    add("ChannelsFirst", channels_first, pool("VALID", last_two, last_two, "NCHW"));
    add("ChannelsFirstOverlapping", channels_first, pool("SAME", last_three, last_two, "NCHW"));
    add("Explicit", x, with(pool("EXPLICIT", three, two), op == "MaxPool" ? explicit_padding : padding_of_our_own));
    add("Ceil", x, with(pool("VALID", two, two), {{"_ceil_mode", true}}));
    add("CeilChannelsFirst", channels_first, with(pool("VALID", last_three, last_two, "NCHW"), {{"_ceil_mode", true}}));
    add("Dilated", x, with(pool("VALID", two, one), {{"_dilations", std::vector<int64_t>{1, 3, 2, 1}}}));
  }
  cases.push_back({"AvgPoolCounted",
                   {image},
                   Op("AvgPool", with(with(pool("EXPLICIT", three, two), padding_of_our_own),
                                      {{"_count_include_pad", true}, {"_ceil_mode", true}})),
                   Both()});
  cases.push_back({"MaxPoolWithArgmax",
                   {distinct},
                   [=](const Scope& s, const Outputs& x) {
                     AttrMap attrs = pool("SAME", {1, 3, 2, 1}, two);
                     attrs.erase("data_format");
                     return Outputs{s.Op("MaxPoolWithArgmax", x, attrs)};
                   },
                   Both()});
  const AttrMap lrn = {{"depth_radius", int64_t{1}}, {"bias", 1.5f}, {"alpha", 0.7f}, {"beta", 0.75f}};
  cases.push_back({"LRN", {X({1, 2, 2, 5})}, Op("LRN", lrn), FirstOrder()});
  cases.push_back({"LRNHalf", {X({1, 2, 2, 5})}, Op("LRN", with(lrn, {{"beta", 0.5f}})), FirstOrder()});
  cases.push_back({"LRNChannelsFirst",
                   {X({1, 5, 2, 2})},
                   Op("LRN", with(lrn, {{"_data_format", std::string("NCHW")}, {"beta", 1.0f}})),
                   FirstOrder()});
  const auto volume = [&](std::string padding, std::vector<int64_t> strides, std::string format) {
    return AttrMap{
        {"padding", std::move(padding)}, {"strides", std::move(strides)}, {"data_format", std::move(format)}};
  };
  const std::vector<int64_t> last_size = {1, 2, 2, 1, 1}, first_size = {1, 1, 2, 1, 2};
  cases.push_back({"Conv3D",
                   {X({1, 3, 3, 2, 2}, 1), X({2, 2, 1, 2, 2}, 2)},
                   Op("Conv3D", volume("SAME", {1, 2, 1, 1, 1}, "NDHWC")),
                   Both()});
  cases.push_back({"Conv3DGroupsChannelsFirst",
                   {X({1, 2, 3, 2, 3}, 1), X({2, 1, 2, 1, 2}, 2)},
                   Op("Conv3D", with(volume("VALID", {1, 1, 1, 1, 1}, "NCDHW"),
                                     {{"dilations", std::vector<int64_t>{1, 1, 2, 1, 1}}})),
                   Both()});
  for (const std::string op : {"MaxPool3D", "AvgPool3D"}) {
    cases.push_back({op,
                     {DistinctTensor({1, 3, 4, 2, 2}, 3)},
                     Op(op, with(volume("SAME", {1, 2, 1, 1, 1}, "NDHWC"), {{"ksize", last_size}})),
                     Both()});
    cases.push_back({op + "ChannelsFirst",
                     {DistinctTensor({1, 2, 3, 2, 4}, 3)},
                     Op(op, with(volume("VALID", {1, 1, 1, 1, 2}, "NCDHW"), {{"ksize", first_size}})),
                     Both()});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Layer, OpGradient, ::testing::ValuesIn(LayerCases()), CaseName);

TEST(StopGradient, HoldsTheGradientBack) {
  // d/dx of stop(x) · x is stop(x) = x, not 2x.
  Graph graph;
  Scope scope(graph);
  const Status status = CheckGradients({X({3})}, [](const Scope& s, const Outputs& x) {
    return Outputs{s.Op("Mul", {s.Op("StopGradient", {x[0]}), x[0]})};
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("finite difference")));
}

// It knows float32 alone, in which differences are too coarse: its formula, written out, must have the same gradient.
TEST(AdjustContrast, HasTheGradientOfItsFormula) {
  Graph graph;
  Scope scope(graph);
  const auto random = [](uint64_t seed) {
    const Tensor wide = RandomTensor(Shape({2, 3, 4, 2}), seed);
    Tensor narrow(DType::kFloat32, wide.shape());
    std::ranges::copy(wide.flat<double>(), narrow.flat<float>().begin());
    return narrow;
  };
  const Output x = scope.Const(random(1)), weights = scope.Const(random(2)),
               factor = scope.Const(Tensor::Scalar(0.25f));
  const Output mean = scope.Op("Mean", {x, scope.Const(Ints({1, 2}))}, {{"keep_dims", true}});
  const Output written_out = scope.Op("AddV2", {scope.Op("Mul", {scope.Op("Sub", {x, mean}), factor}), mean});
  std::vector<std::string> fetches;
  for (const Output& y : {scope.Op("AdjustContrastv2", {x, factor}), written_out}) {
    const Output loss = scope.Op("Sum", {scope.Op("Mul", {y, weights}), scope.Const(Ints({0, 1, 2, 3}))});
    ASSERT_OK(scope.status());
    const auto gradients = ComputeGradients(graph, loss, std::vector{x});
    ASSERT_OK(gradients);
    fetches.push_back((*gradients)[0].name());
  }
  const auto got = testing::RunGraph(graph, {}, fetches);
  ASSERT_OK(got);
  for (size_t i = 0; i < (*got)[0].flat<float>().size(); ++i)
    EXPECT_NEAR((*got)[0].flat<float>()[i], (*got)[1].flat<float>()[i], 1e-5f);
}

// Lists of rows of x, and back: each op's gradient on a way from rows to rows.
std::vector<Case> ListCases() {
  const auto of = [](std::function<Outputs(const Scope&, Output list, const Outputs& x)> then) -> BuildFn {
    return [=](const Scope& scope, const Outputs& x) {
      const Output any = scope.Const(Int(-1));
      return then(scope, scope.Op("TensorListFromTensor", {x[0], any}), x);
    };
  };
  const AttrMap doubles = {{"element_dtype", DType::kFloat64}};
  const auto any = [](const Scope& scope) { return scope.Const(Int(-1)); };
  const auto stacked = [=](const Scope& scope, Output list) {
    return scope.Op("TensorListStack", {list, any(scope)}, doubles);
  };
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::vector<Tensor> inputs, BuildFn build) {
    cases.push_back({std::move(name), std::move(inputs), std::move(build), FirstOrder()});
  };
  add("TensorListStack", {X({3, 2})},
      of([=](const Scope& s, Output list, const Outputs&) -> Outputs { return {stacked(s, list)}; }));
  add("TensorListPush", {X({3, 2}), X({2}, 3)}, of([=](const Scope& s, Output list, const Outputs& x) -> Outputs {
        return {stacked(s, s.Op("TensorListPushBack", {list, x[1]}))};
      }));
  add("TensorListPop", {X({3, 2})}, of([=](const Scope& s, Output list, const Outputs&) -> Outputs {
        Node* pop = s.AddNode("TensorListPopBack", {list, any(s)}, doubles);
        return {stacked(s, pop->output(0)), pop->output(1)};
      }));
  add("TensorListGetItemTwice", {X({3, 2})}, of([=](const Scope& s, Output list, const Outputs&) -> Outputs {
        const Output one = s.Const(Int(1));
        const Output a = s.Op("TensorListGetItem", {list, one, any(s)}, doubles);
        const Output b = s.Op("TensorListGetItem", {list, one, any(s)}, doubles);
        return {s.Op("Mul", {a, b}), stacked(s, list)};
      }));
  add("TensorListSetItem", {X({3, 2}), X({2}, 3)}, of([=](const Scope& s, Output list, const Outputs& x) -> Outputs {
        const Output set = s.Op("TensorListSetItem", {list, s.Const(Int(1)), x[1]});
        return {stacked(s, set), stacked(s, list)};
      }));
  add("TensorListGather", {X({3, 2})}, of([=](const Scope& s, Output list, const Outputs&) -> Outputs {
        return {s.Op("TensorListGather", {list, s.Const(Ints({2, 0})), any(s)}, doubles)};
      }));
  add("TensorListScatter", {X({3, 2})}, [=](const Scope& s, const Outputs& x) -> Outputs {
    const Output list = s.Op("TensorListScatterV2", {x[0], s.Const(Ints({2, 0, 3})), any(s), s.Const(Int(4))}, doubles);
    return {stacked(s, list)};
  });
  add("TensorListScatterInto", {X({3, 2}), X({2, 2}, 3)},
      of([=](const Scope& s, Output list, const Outputs& x) -> Outputs {
        const Output both = s.Op("TensorListScatterIntoExistingList", {list, x[1], s.Const(Ints({2, 0}))});
        return {s.Op("TensorListGather", {both, s.Const(Ints({0, 1, 2})), any(s)}, doubles)};
      }));
  add("TensorListResize", {X({3, 2})}, of([=](const Scope& s, Output list, const Outputs&) -> Outputs {
        return {stacked(s, s.Op("TensorListResize", {list, s.Const(Int(2))})),
                stacked(s, s.Op("TensorListResize", {list, s.Const(Int(4))}))};
      }));
  add("TensorListConcat", {X({3, 2, 2})}, of([=](const Scope& s, Output list, const Outputs&) -> Outputs {
        const Output lengths = s.Const(Tensor::Of<int64_t>({3}, {2, 2, 2}));
        return {s.Op("TensorListConcatV2", {list, any(s), lengths}, doubles)};
      }));
  add("TensorListSplit", {X({6, 2})}, [=](const Scope& s, const Outputs& x) -> Outputs {
    const Output lengths = s.Const(Tensor::Of<int64_t>({3}, {2, 2, 2}));
    return {stacked(s, s.Op("TensorListSplit", {x[0], any(s), lengths}))};
  });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Lists, OpGradient, ::testing::ValuesIn(ListCases()), CaseName);

}  // namespace
}  // namespace rivulet
