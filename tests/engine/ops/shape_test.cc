// Shape functions: results for partly known shapes, and each error with its sentence.
#include "engine/graph/scope.h"
#include "engine/layers/dropout.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

struct Input {
  DType dtype = DType::kFloat32;
  Shape shape;
  Tensor value;  // a constant where it is not empty
};
Input F(Shape shape) { return {DType::kFloat32, std::move(shape), {}}; }
Input I(Shape shape) { return {DType::kInt32, std::move(shape), {}}; }
Input Ints(std::vector<int32_t> values) {
  const Shape shape({static_cast<int64_t>(values.size())});
  return {DType::kInt32, shape, Tensor::Of<int32_t>(shape, std::span<const int32_t>(values))};
}
Input Int(int32_t value) { return {DType::kInt32, {}, Tensor::Scalar(value)}; }
Input Of(Tensor value) { return {value.dtype(), value.shape(), value}; }

StatusOr<Node*> Build(Graph& graph, const std::string& op, const std::vector<Input>& inputs, AttrMap attrs) {
  Scope scope(graph);
  NodeSpec spec{.name = "n", .op = op, .inputs = {}, .attrs = std::move(attrs)};
  for (const Input& input : inputs)
    spec.inputs.push_back(input.value.empty() ? scope.Placeholder("x", input.dtype, input.shape)
                                              : scope.Const(input.value));
  RIVULET_RETURN_IF_ERROR(scope.status());
  return graph.AddNode(std::move(spec));
}

struct ShapeCase {
  std::string op;
  std::vector<Input> inputs;
  std::string expected;  // of output 0
  AttrMap attrs = {};
};

TEST(ShapeInference, PartlyKnownInputs_SayWhatTheyCan) {
  const std::vector<int64_t> one = {1, 1, 1, 1}, two = {1, 2, 2, 1};
  const std::vector<ShapeCase> cases = {
      {"AddV2", {F({-1, 10}), F({10})}, "[?,10]"},
      {"AddV2", {F({-1, 10}), F({-1, 10})}, "[?,10]"},
      {"AddV2", {F({-1}), F({5})}, "[5]"},
      {"AddV2", {F(Shape::UnknownRank()), F({5})}, "<unknown>"},
      {"AddN", {F({-1, 3}), F({2, -1})}, "[2,3]"},
      {"Sum", {F({-1, 3}), Ints({0})}, "[3]"},
      {"Sum", {F({-1, 3}), Ints({1})}, "[?,1]", {{"keep_dims", true}}},
      {"Sum", {F({-1, 3}), I({-1})}, "<unknown>"},
      {"Sum", {F({-1, 3}), I({-1})}, "[?,?]", {{"keep_dims", true}}},
      {"Sum", {F({-1, 3}), I({1})}, "[?]"},
      {"Sum", {F({-1, 3}), I({2})}, "[]"},
      {"Mean", {F({-1, 3}), I({2})}, "[1,1]", {{"keep_dims", true}}},
      {"Mean", {F({}), I({-1})}, "[]"},
      {"ArgMax", {F({-1, 10}), Int(1)}, "[?]"},
      {"Shape", {F({-1, 10})}, "[2]"},
      {"Reshape", {F({-1, 4, 5}), Ints({-1, 20})}, "[?,20]"},
      {"Reshape", {F({6, 4, 5}), Ints({-1, 20})}, "[6,20]"},
      {"Reshape", {F({0, 4}), Ints({-1, 4})}, "[0,4]"},
      {"Reshape", {F({6}), I({2})}, "[?,?]"},
      {"Squeeze", {F({-1, 1, 3})}, "[?,3]", {{"squeeze_dims", std::vector<int64_t>{1}}}},
      {"Squeeze", {F({-1, 1, 3})}, "<unknown>"},
      {"ExpandDims", {F({-1, 3}), Int(-1)}, "[?,3,1]"},
      {"Transpose", {F({-1, 2, 3}), Ints({0, 2, 1})}, "[?,3,2]"},
      {"Transpose", {F({2, 3}), I({2})}, "[?,?]"},
      {"ConcatV2", {F({-1, 2}), F({4, 3}), Int(1)}, "[4,5]"},
      {"ConcatV2", {F({-1, 2}), F({4, 2}), Int(0)}, "[?,2]"},
      {"Split", {Int(1), F({-1, 4})}, "[?,2]", {{"num_split", int64_t{2}}}},
      {"Pack", {F({-1}), F({3})}, "[2,3]"},
      {"Unpack", {F({2, -1})}, "[?]", {{"num", int64_t{2}}}},
      {"Slice", {F({-1, 5}), Ints({0, 1}), Ints({-1, 2})}, "[?,2]"},
      {"StridedSlice",
       {F({-1, 5}), Ints({0, 1}), Ints({0, 4}), Ints({1, 2})},
       "[?,2]",
       {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}}},
      {"Pad", {F({-1, 2}), Of(Tensor::Of<int32_t>({2, 2}, {0, 0, 1, 2}))}, "[?,5]"},
      {"Tile", {F({-1, 2}), Ints({1, 3})}, "[?,6]"},
      {"GatherV2", {F({10, 4}), I({-1, 3}), Int(0)}, "[?,3,4]"},
      {"OneHot", {I({-1}), Int(10), F({}), F({})}, "[?,10]"},
      {"Range", {Int(0), Int(7), Int(2)}, "[4]"},
      {"Fill", {Ints({2, 3}), F({})}, "[2,3]"},
      {"MatMul", {F({-1, 784}), F({784, 10})}, "[?,10]"},
      {"BatchMatMulV2", {F({-1, 1, 2, 3}), F({5, 3, 4})}, "[?,5,2,4]"},
      {"BiasAdd", {F({-1, -1}), F({3})}, "[?,3]"},
      {"Conv2D",
       {F({-1, 28, 28, 1}), F({5, 5, 1, 32})},
       "[?,28,28,32]",
       {{"strides", one}, {"padding", std::string("SAME")}}},
      {"Conv2D",
       {F({-1, 28, 28, 1}), F({5, 5, 1, 32})},
       "[?,24,24,32]",
       {{"strides", one}, {"padding", std::string("VALID")}}},
      {"Conv2D",
       {F({-1, 1, 28, 28}), F({5, 5, 1, 32})},
       "[?,32,14,14]",
       {{"strides", std::vector<int64_t>{1, 1, 2, 2}},
        {"padding", std::string("SAME")},
        {"data_format", std::string("NCHW")}}},
      {"Conv2D",
       {F({-1, -1, 28, 1}), F({5, 5, 1, 32})},
       "[?,?,28,32]",
       {{"strides", one}, {"padding", std::string("SAME")}}},
      {"MaxPool",
       {F({-1, 27, 28, 32})},
       "[?,14,14,32]",
       {{"ksize", two}, {"strides", two}, {"padding", std::string("SAME")}}},
      {"MaxPool",
       {F({-1, 27, 28, 32})},
       "[?,13,14,32]",
       {{"ksize", two}, {"strides", two}, {"padding", std::string("VALID")}}},
      {"SparseSoftmaxCrossEntropyWithLogits", {F({-1, 10}), I({32})}, "[32]"},
      {"RandomUniform", {Ints({2, 3})}, "[2,3]", {{"dtype", DType::kFloat32}}},
  };
  for (const ShapeCase& c : cases) {
    Graph graph;
    const auto node = Build(graph, c.op, c.inputs, c.attrs);
    ASSERT_OK(node);
    EXPECT_EQ((*node)->outputs()[0].shape.ToString(), c.expected) << c.op;
  }
}

struct Refusal {
  std::string op;
  std::vector<Input> inputs;
  std::string sentence;  // part of the message
  AttrMap attrs = {};
};

TEST(ShapeInference, ClashingInputs_AreRefusedWithTheDimension) {
  const std::vector<int64_t> one = {1, 1, 1, 1}, two = {1, 2, 2, 1};
  const std::string same = "SAME", valid = "VALID";
  const std::vector<Refusal> refusals = {
      {"AddV2", {F({2, 3}), F({4})}, "[2,3] and [4] cannot be broadcast together: dimension 1 is 3 and 4"},
      {"AddN", {F({2, 3}), F({2, 4})}, "input 1 is [2,4] and those before it [2,3]"},
      {"ReluGrad", {F({2}), F({3})}, "input 1 is [3] and those before it [2]"},
      {"Sum", {F({2, 3}), Ints({2})}, "reduction axis 2 is outside [-2, 2)"},
      {"Sum", {F({2, 3}), Ints({1, -1})}, "reduction axis -1 is given twice"},
      {"ArgMax", {F({2, 3}), Int(2)}, "dimension 2 is outside [-2, 2)"},
      {"ArgMax", {F({}), Int(0)}, "a scalar has no axis to search"},
      {"ArgMax", {F({2, 0}), Int(1)}, "axis 1 of [2,0] is empty"},
      {"Reshape", {F({2, 3}), Ints({4})}, "[2,3] with 6 elements cannot be reshaped to [4] with 4"},
      {"Reshape", {F({2, 3}), Ints({4, -1})}, "[2,3] with 6 elements cannot be reshaped to [4,?]"},
      {"Reshape", {F({2, 3}), Ints({-1, -1})}, "has more than one size of -1"},
      {"Reshape", {F({2, 3}), Ints({-2, 3})}, "holds -2, which is no size"},
      {"Reshape", {F({-1}), Ints({2147483647, 2147483647})}, "2^40"},
      {"Squeeze", {F({2, 3})}, "axis 1 of [2,3] has size 3", {{"squeeze_dims", std::vector<int64_t>{1}}}},
      {"ExpandDims", {F({2}), Int(3)}, "axis 3 is outside [-2, 2)"},
      {"BroadcastTo", {F({2, 3}), Ints({2, 4})}, "a dimension of 3 cannot become 4"},
      {"BroadcastTo", {F({2, 3}), Ints({3})}, "fewer axes"},
      {"Transpose", {F({2, 3}), Ints({0})}, "the permutation has 1 axes, but x [2,3] has 2"},
      {"Transpose", {F({2, 3}), Ints({1, 1})}, "names axis 1 twice"},
      {"ConcatV2", {F({2, 3}), F({3, 3}), Int(1)}, "in an axis other than 1"},
      {"ConcatV2", {F({}), F({}), Int(0)}, "scalars are joined by Pack"},
      {"Split", {Int(0), F({3, 2})}, "has size 3, which is no multiple of num_split = 2", {{"num_split", int64_t{2}}}},
      {"Pack", {F({2}), F({3})}, "input 1 of shape [3] differs from those before it, [2]"},
      {"Unpack", {F({2, 3})}, "has size 2, but num = 3", {{"num", int64_t{3}}}},
      {"Slice", {F({4}), Ints({2}), Ints({3})}, "the slice [2, 2 + 3) is outside axis 0 of [4]"},
      {"Slice", {F({4}), Ints({-1}), Ints({1})}, "begin of axis 0 is -1, below 0"},
      {"StridedSlice", {F({4}), Ints({0}), Ints({4}), Ints({0})}, "the stride of entry 0 is 0"},
      {"StridedSlice",
       {F({4}), Ints({0, 0}), Ints({4, 4}), Ints({1, 1})},
       "the slice names 2 axes, but the input [4] has 1"},
      {"StridedSlice",
       {F({4}), Ints({4}), Ints({5}), Ints({1})},
       "index 4 of entry 0 is outside axis 0",
       {{"shrink_axis_mask", int64_t{1}}}},
      {"Pad", {F({2}), Of(Tensor::Of<int32_t>({1, 2}, {-1, 0}))}, "must not be negative"},
      {"Pad", {F({2}), Of(Tensor::Of<int32_t>({2, 2}, {0, 0, 0, 0}))}, "a row for each of the 1 axes"},
      {"Tile", {F({2}), Ints({-1})}, "multiple -1 of axis 0 is negative"},
      {"Tile", {F({1 << 30}), Ints({1 << 30})}, "outside [0, 2^40]"},
      {"GatherV2", {F({}), I({2}), Int(0)}, "params is a scalar"},
      {"GatherV2", {F({3}), I({2}), Int(0)}, "batch_dims = 1", {{"batch_dims", int64_t{1}}}},
      {"UnsortedSegmentSum", {F({3, 2}), I({4}), Int(2)}, "must begin with the shape of segment_ids, [4]"},
      {"OneHot", {I({2}), Int(-1), F({}), F({})}, "depth is -1, below 0"},
      {"Range", {Int(0), Int(5), Int(0)}, "a delta other than 0"},
      {"MatMul",
       {F({2, 3}), F({4, 3})},
       "columns of a [2,3] and rows of b [4,3] differ: 3 and 4; did you mean transpose_b = true?"},
      {"MatMul", {F({2, 3}), F({5})}, "rank"},
      {"BatchMatMulV2", {F({2, 3, 4}), F({3, 4, 5})}, "cannot be broadcast"},
      {"BiasAdd", {F({2, 3}), F({4})}, "value [2,3] has 3 channels, but the bias has 4"},
      {"Conv2D",
       {F({1, 8, 8, 3}), F({3, 3, 2, 4})},
       "has 3 channels, but the filter [3,3,2,4] takes 2",
       {{"strides", one}, {"padding", same}}},
      {"Conv2D",
       {F({1, 8, 8, 4}), F({3, 3, 2, 5})},
       "in 2 groups: the filter [3,3,2,5] must give a multiple of 2 channels",
       {{"strides", one}, {"padding", same}}},
      {"DepthwiseConv2dNative",
       {F({1, 8, 8, 4}), F({3, 3, 2, 1})},
       "has 4 channels, but the depthwise filter [3,3,2,1] is for 2",
       {{"strides", one}, {"padding", same}}},
      {"DepthwiseConv2dNativeBackpropFilter",
       {F({1, 8, 8, 4}), Ints({3, 3, 4, 2}), F({1, 8, 8, 4})},
       "out_backprop is [1,8,8,4]",
       {{"strides", one}, {"padding", same}}},
      {"_FusedConv2D",
       {F({1, 8, 8, 4}), F({3, 3, 4, 5}), F({4})},
       "the bias [4] does not fit 5 channels",
       {{"strides", one},
        {"padding", same},
        {"num_args", int64_t{1}},
        {"fused_ops", std::vector<std::string>{"BiasAdd"}}}},
      {"_FusedConv2D",
       {F({1, 8, 8, 4}), F({3, 3, 4, 5})},
       "fused_ops have 'Relu' in a place",
       {{"strides", one},
        {"padding", same},
        {"num_args", int64_t{0}},
        {"fused_ops", std::vector<std::string>{"Relu", "BiasAdd"}}}},
      {"_FusedConv2D",
       {F({1, 8, 8, 4}), F({3, 3, 4, 5})},
       "fused_ops ask for 1 args, not 0",
       {{"strides", one},
        {"padding", same},
        {"num_args", int64_t{0}},
        {"fused_ops", std::vector<std::string>{"BiasAdd"}}}},
      {"_FusedConv2DMaxPool",
       {F({1, 8, 3, 4}), F({3, 3, 4, 5})},
       "a window of width 2 is larger than the image's 1",
       {{"strides", one}, {"padding", valid}, {"num_args", int64_t{0}}}},
      {"Conv2D",
       {F({1, 2, 8, 3}), F({3, 3, 3, 4})},
       "a window of height 3 is larger than the image's 2; padding = SAME",
       {{"strides", one}, {"padding", valid}}},
      {"Conv2D",
       {F({1, 8, 8, 3}), F({3, 3, 3, 4})},
       "must hold 4 integers, not 2",
       {{"strides", std::vector<int64_t>{1, 1}}, {"padding", same}}},
      {"Conv2D",
       {F({1, 8, 8, 3}), F({3, 3, 3, 4})},
       "stride 0",
       {{"strides", std::vector<int64_t>{1, 0, 1, 1}}, {"padding", same}}},
      {"Conv2D",
       {F({1, 8, 8, 3}), F({3, 3, 3, 4})},
       "needs 8 explicit_paddings, not 0",
       {{"strides", one}, {"padding", std::string("EXPLICIT")}}},
      {"Conv2DBackpropFilter",
       {F({1, 8, 8, 3}), Ints({3, 3, 3, 4}), F({1, 7, 8, 4})},
       "out_backprop is [1,7,8,4]",
       {{"strides", one}, {"padding", same}}},
      {"MaxPool",
       {F({1, 4, 4, 2})},
       "over channels",
       {{"ksize", std::vector<int64_t>{1, 2, 2, 2}}, {"strides", two}, {"padding", same}}},
      {"MaxPoolGrad",
       {F({1, 4, 4, 2}), F({1, 2, 2, 2}), F({1, 4, 4, 2})},
       "grad is [1,4,4,2]",
       {{"ksize", two}, {"strides", two}, {"padding", same}}},
      {"MaxPoolGradGrad",
       {F({1, 4, 4, 2}), F({1, 2, 2, 2}), F({1, 2, 2, 2})},
       "grad is [1,2,2,2], but orig_input is [1,4,4,2]",
       {{"ksize", two}, {"strides", two}, {"padding", same}}},
      {"AvgPool",
       {F({1, 4, 4, 2})},
       "needs 8 explicit_paddings, not 0",
       {{"ksize", two}, {"strides", two}, {"padding", std::string("EXPLICIT")}}},
      {"MaxPool",
       {F({1, 4, 4, 2})},
       "stride 1 and dilation 0",
       {{"ksize", two}, {"strides", one}, {"padding", same}, {"_dilations", std::vector<int64_t>{1, 0, 1, 1}}}},
      {"Conv3D",
       {F({1, 4, 4, 4, 3}), F({2, 2, 2, 2, 4})},
       "has 3 channels, but the filter [2,2,2,2,4] takes 2",
       {{"strides", std::vector<int64_t>{1, 1, 1, 1, 1}}, {"padding", same}}},
      {"Conv3D",
       {F({1, 1, 4, 4, 2}), F({2, 2, 2, 2, 4})},
       "a window of depth 2 is larger than the image's 1",
       {{"strides", std::vector<int64_t>{1, 1, 1, 1, 1}}, {"padding", valid}}},
      {"AvgPool3D",
       {F({1, 4, 4, 4, 3})},
       "must hold 5 integers, not 6",
       {{"ksize", std::vector<int64_t>{1, 2, 2, 2, 1}},
        {"strides", std::vector<int64_t>{1, 1, 1, 1, 1, 1}},
        {"padding", same}}},
      {"LRN", {F({1, 4, 4, 2})}, "depth_radius is -1, below 0", {{"depth_radius", int64_t{-1}}}},
      {"SparseSoftmaxCrossEntropyWithLogits", {F({2, 3}), I({4})}, "differ in batch size: 2 and 4"},
      {"SoftmaxCrossEntropyWithLogits", {F({2, 3}), F({2, 4})}, "must have one shape, or be broadcast"},
      {"Softmax", {F({})}, "at least one axis"},
      {"StatelessRandomUniform", {Ints({2}), Ints({1, 2, 3})}, "the seed must be 2 integers"},
      {"RandomUniform", {Ints({-1})}, "holds -1, which is no size", {{"dtype", DType::kFloat32}}},
      {"Fill", {Ints({2}), F({2})}, "the value must be a scalar"},
      {"SelectV2", {{DType::kBool, {2}, {}}, F({3}), F({3})}, "cannot be broadcast"},
  };
  for (const Refusal& refusal : refusals) {
    Graph graph;
    const auto node = Build(graph, refusal.op, refusal.inputs, refusal.attrs);
    // UNIMPLEMENTED: TensorFlow has it, and no kernel here does.
    const auto says = ::testing::AllOf(HasSubstr(refusal.sentence), HasSubstr("'n'"));
    EXPECT_THAT(node, ::testing::AnyOf(StatusIs(absl::StatusCode::kInvalidArgument, says),
                                       StatusIs(absl::StatusCode::kUnimplemented, says)))
        << refusal.op;
  }
}

TEST(Variables, AssignmentOfAnotherShape_IsRefused) {
  Graph graph;
  Scope scope(graph);
  const Output handle = scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape({2, 3})}});
  EXPECT_EQ(scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}).shape(), Shape({2, 3}));
  scope.AddNode("AssignVariableOp", {handle, scope.Placeholder("v", DType::kFloat32, {3, 2})});
  EXPECT_THAT(std::string(Message(scope.status())),
              HasSubstr("a value of shape [3,2] cannot be assigned to a variable of shape [2,3]"));
}

TEST(Variables, UpdatesOfAnotherShape_AreRefused) {
  const auto status_of = [](const std::string& op, const std::vector<Shape>& shapes) {
    Graph graph;
    Scope scope(graph);
    std::vector<Output> inputs;
    const int handles = op == "ResourceApplyMomentum" ? 2 : 1;
    for (int i = 0; i < handles; ++i)
      inputs.push_back(
          scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", shapes[static_cast<size_t>(i)]}}));
    for (size_t i = static_cast<size_t>(handles); i < shapes.size(); ++i)
      inputs.push_back(scope.Placeholder("x", DType::kFloat32, shapes[i]));
    scope.AddNode(op, inputs);
    return std::string(Message(scope.status()));
  };
  EXPECT_EQ(status_of("ResourceApplyGradientDescent", {{3}, {}, {3}}), "");
  EXPECT_THAT(status_of("ResourceApplyGradientDescent", {{3}, {1}, {3}}), HasSubstr("alpha must be a scalar"));
  EXPECT_THAT(status_of("ResourceApplyGradientDescent", {{3}, {}, {4}}), HasSubstr("delta of shape [4] does not fit"));
  EXPECT_EQ(status_of("ResourceApplyMomentum", {{3}, {3}, {}, {3}, {}}), "");
  EXPECT_THAT(status_of("ResourceApplyMomentum", {{3}, {2}, {}, {3}, {}}), HasSubstr("accum of shape [2]"));
  EXPECT_THAT(status_of("ResourceApplyMomentum", {{3}, {3}, {}, {3}, {2}}), HasSubstr("momentum must be a scalar"));
}

TEST(Dropout, RateOutsideItsRange_IsRefused) {
  for (float rate : {-0.1f, 1.0f, 2.0f}) {
    Graph graph;
    Scope scope(graph);
    Dropout(scope, scope.Placeholder("x", DType::kFloat32, {3}), rate);
    EXPECT_THAT(std::string(Message(scope.status())), HasSubstr("a rate must be in [0, 1)"));
  }
}

TEST(Dropout, RateZero_IsTheInputItself) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {3});
  EXPECT_EQ(Dropout(scope, x, 0), x);
}

}  // namespace
}  // namespace rivulet
