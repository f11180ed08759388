// Ops on arrays: gradients compared with finite differences for every attribute that changes the formula, and errors:
// indices out of range, incompatible shapes, sizes beyond the limits.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::DistinctTensor;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::EvaluateOp;
using testing::GradientCheckOptions;
using ::testing::HasSubstr;
using testing::Ints;
using testing::RandomTensor;
using testing::Values;

Tensor Int(int32_t value) { return Tensor::Scalar(value); }

// One op and its floating outputs; an X in `arguments` is the next floating input, everything else a constant.
struct X {};
using Argument = std::variant<X, Tensor>;
BuildFn Op(std::string op, std::vector<Argument> arguments, AttrMap attrs = {}) {
  return [=](const Scope& scope, const std::vector<Output>& x) {
    std::vector<Output> inputs;
    size_t next = 0;
    for (const Argument& argument : arguments)
      inputs.push_back(std::holds_alternative<X>(argument) ? x[next++] : scope.Const(std::get<Tensor>(argument)));
    Node* node = scope.AddNode(op, inputs, attrs);
    std::vector<Output> outputs;
    for (int port = 0; node != nullptr && port < static_cast<int>(node->outputs().size()); ++port)
      if (IsFloating(node->output(port).dtype())) outputs.push_back(node->output(port));
    return outputs;
  };
}

struct Case {
  std::string name;
  std::vector<Tensor> inputs;
  BuildFn build;
  bool second_order = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ArrayGradient : public ::testing::TestWithParam<Case> {};

TEST_P(ArrayGradient, EqualsFiniteDifference) {
  const Case& c = GetParam();
  GradientCheckOptions options;
  options.second_order = c.second_order;
  const Status status = testing::CheckGradients(c.inputs, c.build, options);
  EXPECT_OK(status);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

Tensor R(Shape shape, uint64_t seed = 1) { return RandomTensor(std::move(shape), seed); }
Tensor D(Shape shape, uint64_t seed = 1) { return DistinctTensor(std::move(shape), seed); }

std::vector<Case> MovingCases() {
  std::vector<Case> cases = {
      {"SplitV", {R({2, 5})}, Op("SplitV", {X{}, Ints({2, 0, 3}), Int(1)}, {{"num_split", int64_t{3}}})},
      {"SplitVRest", {R({5, 2})}, Op("SplitV", {X{}, Ints({1, -1}), Int(-2)}, {{"num_split", int64_t{2}}})},
      {"PadV2", {R({2, 3}), R({}, 2)}, Op("PadV2", {X{}, Ints({2, 2}, {1, 0, 2, 1}), X{}})},
      {"ReverseV2", {R({2, 3, 2})}, Op("ReverseV2", {X{}, Ints({-1, 0})})},
      {"ReverseV2None", {R({2, 3})}, Op("ReverseV2", {X{}, Ints({})})},
      {"Roll", {R({3, 4})}, Op("Roll", {X{}, Ints({1, -6}), Ints({0, 1})})},
      {"RollTwice", {R({5})}, Op("Roll", {X{}, Ints({1, 3}), Ints({0, -1})})},
      {"RollScalar", {R({3, 2})}, Op("Roll", {X{}, Int(4), Int(0)})},
      {"MatrixBandPart", {R({2, 3, 4})}, Op("MatrixBandPart", {X{}, Int(1), Int(0)})},
      {"MatrixBandPartUpper", {R({4, 3})}, Op("MatrixBandPart", {X{}, Int(0), Int(-1)})},
      {"MatrixDiag", {R({2, 3})}, Op("MatrixDiag", {X{}})},
      {"MatrixDiagPart", {R({2, 3, 4})}, Op("MatrixDiagPart", {X{}})},
      {"MatrixSetDiag", {R({2, 4, 3}), R({2, 3}, 2)}, Op("MatrixSetDiag", {X{}, X{}})},
      {"MatrixDiagV3", {R({2, 3})}, Op("MatrixDiagV3", {X{}, Int(1), Int(-1), Int(-1), Tensor::Scalar(2.0)})},
      {"MatrixDiagPartV3Band", {R({2, 3, 4})}, Op("MatrixDiagPartV3", {X{}, Ints({-1, 2}), Tensor::Scalar(2.0)})},
      {"MatrixSetDiagV3Band", {R({4, 3}), R({2, 3}, 2)}, Op("MatrixSetDiagV3", {X{}, X{}, Ints({-1, 0})})},
      {"EnsureShape", {R({2, 3})}, Op("EnsureShape", {X{}}, {{"shape", Shape({2, kUnknownDim})}})},
      {"Snapshot", {R({2, 3})}, Op("Snapshot", {X{}})},
      {"SpaceToBatchND", {R({2, 3, 4, 2})}, Op("SpaceToBatchND", {X{}, Ints({2, 3}), Ints({2, 2}, {1, 0, 0, 2})})},
      {"SpaceToBatchNDOneAxis", {R({2, 5})}, Op("SpaceToBatchND", {X{}, Ints({3}), Ints({1, 2}, {1, 3})})},
      {"BatchToSpaceND", {R({6, 2, 2, 2})}, Op("BatchToSpaceND", {X{}, Ints({2, 3}), Ints({2, 2}, {1, 0, 1, 2})})},
      {"SelectVector", {R({2, 3}), R({2, 3}, 2)}, Op("Select", {Tensor::Of<bool>({2}, {true, false}), X{}, X{}})},
      {"SelectScalar", {R({2, 3}), R({2, 3}, 2)}, Op("Select", {Tensor::Scalar(false), X{}, X{}})},
      {"SelectSame", {R({3}), R({3}, 2)}, Op("Select", {Tensor::Of<bool>({3}, {true, false, true}), X{}, X{}})},
  };
  for (const std::string mode : {"REFLECT", "SYMMETRIC"}) {
    cases.push_back(
        {"MirrorPad" + mode, {R({3, 4})}, Op("MirrorPad", {X{}, Ints({2, 2}, {1, 2, 3, 0})}, {{"mode", mode}})});
    cases.push_back({"MirrorPadGrad" + mode,
                     {R({6, 7})},
                     Op("MirrorPadGrad", {X{}, Ints({2, 2}, {1, 2, 3, 0})}, {{"mode", mode}})});
  }
  for (const auto& [name, align, half] : std::vector<std::tuple<std::string, bool, bool>>{
           {"", false, false}, {"Aligned", true, false}, {"Half", false, true}})
    for (const std::string op : {"ResizeNearestNeighbor", "ResizeNearestNeighborGrad"})
      cases.push_back({op + name,
                       {R({2, 3, 4, 2})},
                       Op(op, {X{}, Ints({5, 3})}, {{"align_corners", align}, {"half_pixel_centers", half}})});
  for (const std::string format : {"NHWC", "NCHW"}) {
    const AttrMap attrs = {{"block_size", int64_t{2}}, {"data_format", format}};
    const bool first = format == "NCHW";
    cases.push_back({"SpaceToDepth" + format,
                     {R(first ? Shape{2, 3, 4, 2} : Shape{2, 4, 2, 3})},
                     Op("SpaceToDepth", {X{}}, attrs)});
    cases.push_back({"DepthToSpace" + format,
                     {R(first ? Shape{2, 8, 1, 2} : Shape{2, 1, 2, 8})},
                     Op("DepthToSpace", {X{}}, attrs)});
  }
  for (const auto& [seq, batch] : std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {0, 1}, {2, 0}, {0, 2}})
    cases.push_back({fmt::format("ReverseSequence{}{}", seq, batch),
                     {R({3, 3, 3, 2})},
                     Op("ReverseSequence", {X{}, Ints({2, 0, 3})}, {{"seq_dim", seq}, {"batch_dim", batch}})});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Moving, ArrayGradient, ::testing::ValuesIn(MovingCases()), CaseName);

std::vector<Case> ChoosingCases() {
  const Tensor vectors = Ints({3, 2}, {1, 0, 0, 2, 1, 0});  // one of them twice
  std::vector<Case> cases = {
      {"GatherBatch",
       {R({2, 4, 3})},
       Op("GatherV2", {X{}, Ints({2, 2}, {3, 1, 1, 1}), Int(1)}, {{"batch_dims", int64_t{1}}})},
      {"GatherBatchLater",
       {R({2, 3, 4})},
       Op("GatherV2", {X{}, Ints({2, 2}, {3, 1, 1, 1}), Int(2)}, {{"batch_dims", int64_t{-1}}})},
      {"GatherMatrixOfIndices", {R({2, 4})}, Op("GatherV2", {X{}, Ints({2, 2}, {3, 1, 1, 1}), Int(1)})},
      {"Gather", {R({4, 2})}, Op("Gather", {X{}, Ints({2, 2}, {3, 1, 1, 1})})},
      {"BatchMatMul", {R({2, 3, 2}), R({2, 3, 4}, 2)}, Op("BatchMatMul", {X{}, X{}}, {{"adj_x", true}})},
      {"GatherNone", {R({4, 2})}, Op("GatherV2", {X{}, Ints({}), Int(0)})},
      {"GatherNd", {R({2, 3, 2})}, Op("GatherNd", {X{}, vectors})},
      {"GatherNdScalars", {R({2, 3})}, Op("GatherNd", {X{}, vectors})},
      {"GatherNdWhole", {R({2, 3})}, Op("GatherNd", {X{}, Ints({2, 0}, {})})},
      {"ScatterNd", {R({3, 2})}, Op("ScatterNd", {vectors, X{}, Ints({2, 3, 2})})},
      {"TensorScatterUpdate",
       {R({2, 3}), R({2}, 2)},
       Op("TensorScatterUpdate", {X{}, Ints({2, 2}, {1, 0, 0, 2}), X{}})},
      {"TensorScatterAdd", {R({2, 3, 2}), R({3, 2}, 2)}, Op("TensorScatterAdd", {X{}, vectors, X{}})},
      {"TensorScatterSub", {R({2, 3, 2}), R({3, 2}, 2)}, Op("TensorScatterSub", {X{}, vectors, X{}})},
      {"TensorScatterMax", {D({2, 3}, 3), D({3}, 4)}, Op("TensorScatterMax", {X{}, vectors, X{}}), false},
      {"TensorScatterMin", {D({2, 3}, 3), D({3}, 4)}, Op("TensorScatterMin", {X{}, vectors, X{}}), false},
      {"SegmentSum", {R({4, 2})}, Op("UnsortedSegmentSum", {X{}, Ints({1, -1, 1, 0}), Int(3)})},
      {"SegmentMax", {D({4, 2})}, Op("UnsortedSegmentMax", {X{}, Ints({1, -1, 1, 0}), Int(2)}), false},
      {"SegmentMin", {D({2, 2})}, Op("UnsortedSegmentMin", {X{}, Ints({2, 2}, {0, 1, 1, 0}), Int(2)}), false},
      {"SegmentProd", {D({4, 2})}, Op("UnsortedSegmentProd", {X{}, Ints({1, -1, 1, 0}), Int(3)}), false},
      {"SegmentProdOfZeros",
       {Tensor::Of<double>({6}, {0, 2, 3, 0, 0, 4})},
       Op("UnsortedSegmentProd", {X{}, Ints({0, 0, 0, 1, 1, 1}), Int(2)}),
       false},
      {"TopK", {D({2, 5})}, Op("TopKV2", {X{}, Int(3)})},
      {"TopKNone", {D({5})}, Op("TopKV2", {X{}, Int(0)})},
  };
  for (int64_t axis : {0, 1, -1}) {
    const Tensor indices = Ints({2, 2, 2}, {0, 1, -1, 0, 1, 1, 0, -2});
    const std::string name = fmt::format("{}", axis < 0 ? "Last" : axis == 0 ? "First" : "Middle");
    cases.push_back({"TakeAlong" + name, {R({2, 3, 2})}, Op("TakeAlongAxis", {X{}, indices}, {{"axis", axis}})});
    for (const std::string reduction : {"none", "add", "max", "min"}) {
      const Tensor apart = reduction == "none" ? Ints({2, 1, 2}, {0, 1, 1, 0}) : indices;  // each place once
      const bool extreme = reduction == "max" || reduction == "min";
      cases.push_back({"ScatterAlong" + name + reduction,
                       {D({2, 3, 2}, 5), D(apart.shape(), 6)},
                       Op("ScatterAlongAxis", {X{}, apart, X{}}, {{"axis", axis}, {"reduction", reduction}}),
                       !extreme});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Choosing, ArrayGradient, ::testing::ValuesIn(ChoosingCases()), CaseName);

std::vector<Case> ReducingCases() {
  std::vector<Case> cases;
  const Tensor zeros = Tensor::Of<double>({2, 3}, {0, 2, 3, 0, 0, 4});
  for (const auto& [name, axes] : std::vector<std::pair<std::string, std::vector<int32_t>>>{
           {"First", {0}}, {"Last", {-1}}, {"Outer", {2, 0}}, {"All", {0, 1, 2}}, {"None", {}}})
    for (bool keep : {false, true}) {
      const std::string suffix = name + (keep ? "Kept" : "");
      cases.push_back({"Prod" + suffix, {R({2, 3, 2})}, Op("Prod", {X{}, Ints(axes)}, {{"keep_dims", keep}})});
      cases.push_back(
          {"Norm" + suffix, {R({2, 3, 2})}, Op("EuclideanNorm", {X{}, Ints(axes)}, {{"keep_dims", keep}}), false});
    }
  cases.push_back({"ProdOfZeros", {zeros}, Op("Prod", {X{}, Ints({1})})});
  cases.push_back({"ProdOfManyZeros", {Tensor(DType::kFloat64, {3})}, Op("Prod", {X{}, Ints({0})})});
  for (const std::string op : {"Cumsum", "Cumprod"})
    for (int32_t axis : {0, 1, -1})
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true})
          cases.push_back({fmt::format("{}{}{}{}", op,
                                       axis < 0    ? "Last"
                                       : axis == 0 ? "First"
                                                   : "Middle",
                                       exclusive ? "Exclusive" : "", reverse ? "Reverse" : ""),
                           {R({2, 3, 2})},
                           Op(op, {X{}, Int(axis)}, {{"exclusive", exclusive}, {"reverse", reverse}}),
                           op == "Cumsum"});
  for (bool exclusive : {false, true})
    cases.push_back({exclusive ? "CumprodOfZerosExclusive" : "CumprodOfZeros",
                     {zeros},
                     Op("Cumprod", {X{}, Int(1)}, {{"exclusive", exclusive}}),
                     false});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Reducing, ArrayGradient, ::testing::ValuesIn(ReducingCases()), CaseName);

std::string Refusal(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {},
                    std::vector<size_t> constants = {}) {
  return ErrorOf(EvaluateOp(op, inputs, std::move(attrs), std::move(constants)));
}

const Tensor kFloats = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});

// TensorFlow hands on what it reduces over no axes or over axes of size one; a sum that began with zero would lose the
// sign of -0. The norm is computed.
TEST(ReductionOfOneElement, IsThatElement) {
  const Tensor x = Tensor::Of<float>({2, 1}, {-0.0f, -3.5f});
  for (const std::string op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    for (const Tensor& axes : {Ints({1}), Ints({})}) {
      const std::vector<float> y = Values<float>(EvaluateOp(op, {x, axes}, {}, {1}));
      ASSERT_THAT(y, ElementsAre(0.0f, -3.5f)) << op;
      EXPECT_TRUE(std::signbit(y[0])) << op;
    }
  }
  EXPECT_THAT(Values<float>(EvaluateOp("EuclideanNorm", {x, Ints({1})}, {}, {1})), ElementsAre(0.0f, 3.5f));
}

TEST(ArrayRefusals, IndicesOutOfRange_AreNamed) {
  const auto vectors = [](std::vector<int32_t> values) { return Ints({1, 2}, std::move(values)); };
  const Tensor one = Tensor::Of<float>({1}, {7});
  EXPECT_THAT(Refusal("GatherV2", {kFloats, Ints({2, 1}, {0, 3}), Int(1)}, {{"batch_dims", int64_t{1}}}, {2}),
              HasSubstr("index 3 at position 1 is outside [0, 3)"));
  EXPECT_THAT(Refusal("GatherNd", {kFloats, vectors({0, 3})}), HasSubstr("index 3 of axis 1"));
  EXPECT_THAT(Refusal("GatherNd", {kFloats, vectors({-1, 0})}), HasSubstr("index -1 of axis 0"));
  EXPECT_THAT(Refusal("ScatterNd", {vectors({2, 0}), one, Ints({2, 3})}, {}, {2}), HasSubstr("index 2 of axis 0"));
  for (const std::string op : {"TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax"})
    EXPECT_THAT(Refusal(op, {kFloats, vectors({INT32_MAX, 0}), one}), HasSubstr("index 2147483647 of axis 0")) << op;
  EXPECT_THAT(Refusal("TensorScatterAdd", {kFloats, Tensor::Of<int64_t>({1, 2}, {INT64_MIN, 0}), one}),
              HasSubstr("index -9223372036854775808"));
  EXPECT_THAT(Refusal("TakeAlongAxis", {kFloats, Ints({1, 1}, {3})}, {{"axis", int64_t{1}}}),
              HasSubstr("index 3 at position 0 is outside [-3, 3)"));
  EXPECT_THAT(Refusal("TakeAlongAxis", {kFloats, Tensor::Of<int64_t>({1, 1}, {INT64_MIN})}, {{"axis", int64_t{1}}}),
              HasSubstr("is outside [-3, 3)"));
  EXPECT_THAT(Refusal("ScatterAlongAxis", {kFloats, Ints({1, 1}, {-4}), Tensor::Of<float>({1, 1}, {0})},
                      {{"axis", int64_t{1}}}),
              HasSubstr("index -4"));
  EXPECT_THAT(Refusal("UnsortedSegmentMax", {kFloats, Ints({0, 5}), Int(2)}, {}, {2}),
              HasSubstr("segment id 5 at position 1 is not below num_segments = 2"));
  EXPECT_THAT(Refusal("ReverseSequence", {kFloats, Ints({1, 4})}, {{"seq_dim", int64_t{1}}}),
              HasSubstr("seq_lengths[1] is 4, outside [0, 3]"));
  EXPECT_THAT(Refusal("MatrixBandPart", {kFloats, Int(3), Int(0)}), HasSubstr("beyond matrices of 2x3"));
}

TEST(ArrayRefusals, ShapesThatDoNotFit_AreNamed) {
  EXPECT_THAT(Refusal("BatchMatMul", {Tensor(DType::kFloat32, {2, 1, 3}), Tensor(DType::kFloat32, {1, 3, 2})}),
              HasSubstr("differ in the axes before the matrices"));
  EXPECT_THAT(Refusal("Gather", {kFloats, Ints({2})}), HasSubstr("index 2 at position 0 is outside [0, 2)"));
  EXPECT_THAT(Refusal("SplitV", {kFloats, Ints({1, 1}), Int(1)}, {{"num_split", int64_t{2}}}, {1, 2}),
              HasSubstr("add up to 2, but axis 1 of [2,3] has size 3"));
  EXPECT_THAT(Refusal("SplitV", {kFloats, Ints({-1, -1}), Int(1)}, {{"num_split", int64_t{2}}}, {1, 2}),
              HasSubstr("-1 2 times"));
  EXPECT_THAT(Refusal("SplitV", {kFloats, Ints({4, -1}), Int(1)}, {{"num_split", int64_t{2}}}, {1, 2}),
              HasSubstr("add up to 4"));
  EXPECT_THAT(Refusal("SplitV", {kFloats, Ints({3}), Int(1)}, {{"num_split", int64_t{2}}}, {1, 2}),
              HasSubstr("num_split is 2"));
  EXPECT_THAT(Refusal("PadV2", {kFloats, Ints({1, 2}, {1, 1}), Tensor::Scalar(0.0f)}, {}, {1}),
              HasSubstr("a row for each of the 2 axes"));
  EXPECT_THAT(Refusal("PadV2", {kFloats, Ints({2, 2}, {1, 1, -1, 0}), Tensor::Scalar(0.0f)}, {}, {1}),
              HasSubstr("must not be negative"));
  EXPECT_THAT(Refusal("PadV2", {kFloats, Ints({2, 2}, {0, 0, 0, 0}), Ints({1})}, {}, {1}), HasSubstr("PadV2"));
  EXPECT_THAT(Refusal("MirrorPad", {kFloats, Ints({2, 2}, {2, 0, 0, 0})}, {{"mode", std::string("REFLECT")}}, {1}),
              HasSubstr("reach beyond its size 2 in mode REFLECT"));
  EXPECT_THAT(Refusal("MirrorPadGrad", {kFloats, Ints({2, 2}, {2, 1, 0, 0})}, {{"mode", std::string("REFLECT")}}, {1}),
              HasSubstr("are more than its size 2"));
  EXPECT_THAT(Refusal("ReverseV2", {kFloats, Ints({0, -2})}, {}, {1}), HasSubstr("axis -2 is given twice"));
  EXPECT_THAT(Refusal("Roll", {kFloats, Ints({1}), Ints({2})}, {}, {1, 2}), HasSubstr("axis 2 is outside"));
  EXPECT_THAT(Refusal("SpaceToDepth", {Tensor(DType::kFloat32, {1, 3, 2, 1})}, {{"block_size", int64_t{2}}}),
              HasSubstr("no multiple of block_size = 2"));
  EXPECT_THAT(Refusal("DepthToSpace", {Tensor(DType::kFloat32, {1, 3, 2, 2})}, {{"block_size", int64_t{2}}}),
              HasSubstr("no multiple of block_size"));
  EXPECT_THAT(Refusal("SpaceToBatchND", {kFloats, Ints({2}), Ints({1, 2}, {0, 0})}, {}, {1, 2}),
              HasSubstr("no multiple of the block's 2"));
  EXPECT_THAT(Refusal("BatchToSpaceND", {kFloats, Ints({3}), Ints({1, 2}, {0, 0})}, {}, {1, 2}),
              HasSubstr("no multiple of the block's 3"));
  EXPECT_THAT(Refusal("BatchToSpaceND", {kFloats, Ints({2}), Ints({1, 2}, {7, 0})}, {}, {1, 2}), HasSubstr("crops"));
  EXPECT_THAT(Refusal("MatrixSetDiag", {kFloats, Tensor(DType::kFloat32, {3})}), HasSubstr("does not fit"));
  const Tensor zero = Tensor::Scalar(0.0f);
  EXPECT_THAT(Refusal("MatrixDiagPartV3", {kFloats, Int(3), zero}, {}, {1}),
              HasSubstr("not all inside a matrix of 2x3"));
  EXPECT_THAT(Refusal("MatrixDiagPartV3", {kFloats, Ints({1, 0}), zero}, {}, {1}), HasSubstr("no band"));
  EXPECT_THAT(Refusal("MatrixDiagPartV3", {kFloats, Ints({0, 0, 0}), zero}, {}, {1}), HasSubstr("one or two"));
  EXPECT_THAT(Refusal("MatrixSetDiagV3", {kFloats, Tensor(DType::kFloat32, {3}), Int(0)}, {}, {2}),
              HasSubstr("do not fit"));
  EXPECT_THAT(Refusal("MatrixDiagV3", {Tensor(DType::kFloat32, {3}), Int(0), Int(2), Int(2), zero}, {}, {1, 2, 3}),
              HasSubstr("do not fit a matrix of 2x2"));
  EXPECT_NE(
      Refusal("MatrixDiagV3", {Tensor(DType::kFloat32, {3}), Int(INT32_MIN), Int(-1), Int(-1), zero}, {}, {1, 2, 3}),
      "no error");
  EXPECT_THAT(Refusal("GatherNd", {kFloats, Ints({1, 3}, {0, 0, 0})}), HasSubstr("name 3 axes"));
  EXPECT_THAT(Refusal("TensorScatterAdd", {kFloats, Ints({1, 1}, {0}), Tensor(DType::kFloat32, {1, 2})}),
              HasSubstr("do not fit"));
  EXPECT_THAT(Refusal("TakeAlongAxis", {kFloats, Ints({3, 1}, {0, 0, 0})}, {{"axis", int64_t{1}}}),
              HasSubstr("longer than"));
  EXPECT_THAT(Refusal("TopKV2", {kFloats, Int(4)}, {}, {1}), HasSubstr("fewer than k = 4"));
  EXPECT_THAT(Refusal("TopKV2", {kFloats, Int(-1)}, {}, {1}), HasSubstr("k is -1"));
  EXPECT_THAT(Refusal("Cumsum", {kFloats, Int(2)}, {}, {1}), HasSubstr("outside [-2, 2)"));
  EXPECT_THAT(Refusal("EnsureShape", {kFloats}, {{"shape", Shape({3, 2})}}), HasSubstr("has not the shape [3,2]"));
  EXPECT_THAT(Refusal("Select", {Tensor::Of<bool>({3}, {true, true, true}), kFloats, kFloats}),
              HasSubstr("must be a scalar"));
  EXPECT_THAT(Refusal("LinSpace", {Tensor::Scalar(0.0f), Tensor::Scalar(1.0f), Int(0)}, {}, {2}),
              HasSubstr("num is 0"));
}

TEST(ArrayRefusals, ImagesWithoutPixels_AreRefused) {
  const Tensor image(DType::kFloat32, {1, 2, 2, 1});
  for (const std::string op : {"ResizeBilinear", "ResizeNearestNeighbor"}) {
    EXPECT_THAT(Refusal(op, {image, Ints({0, 2})}, {}, {1}), HasSubstr("no side may be 0"));
    EXPECT_THAT(Refusal(op, {Tensor(DType::kFloat32, {1, 0, 2, 1}), Ints({2, 2})}, {}, {1}),
                HasSubstr("no side may be 0"));
    EXPECT_THAT(Refusal(op, {image, Ints({-1, 2})}, {}, {1}), HasSubstr("-1, which is no size"));
    EXPECT_THAT(Refusal(op, {image, Ints({2, 2})}, {{"align_corners", true}, {"half_pixel_centers", true}}, {1}),
                HasSubstr("exclude each other"));
    EXPECT_NE(Refusal(op, {image, Ints({INT32_MAX, INT32_MAX})}, {}, {1}), "no error");
  }
}

TEST(ArrayRefusals, AbsurdSizes_AreRefusedWithoutMemory) {
  const Tensor scalar = Tensor::Scalar(1.0f);
  EXPECT_NE(Refusal("PadV2", {kFloats, Ints({2, 2}, {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}), scalar}, {}, {1}),
            "no error");
  EXPECT_NE(Refusal("LinSpace", {scalar, scalar, Tensor::Scalar<int64_t>(int64_t{1} << 50)}, {}, {2}), "no error");
  EXPECT_NE(
      Refusal("ScatterNd", {Ints({0, 2}, {}), Tensor(DType::kFloat32, {0}), Ints({INT32_MAX, INT32_MAX})}, {}, {2}),
      "no error");
  EXPECT_NE(Refusal("BatchToSpaceND", {kFloats, Tensor::Of<int64_t>({1}, {int64_t{1} << 45}), Ints({1, 2}, {0, 0})}, {},
                    {1, 2}),
            "no error");
  EXPECT_NE(Refusal("SpaceToDepth", {Tensor(DType::kFloat32, {1, 2, 2, 1})}, {{"block_size", INT64_MAX}}), "no error");
}

// Tensors without elements, fed and folded: the right shape, and nothing touched.
TEST(EmptyTensors, EveryOp_GivesTheShape) {
  const auto f = [](Shape shape) { return Tensor(DType::kFloat32, std::move(shape)); };
  struct Empty {
    std::string op;
    std::vector<Tensor> inputs;
    std::vector<size_t> constants;
    AttrMap attrs;
    std::string shape;
  };
  const std::vector<Empty> cases = {
      {"SplitV", {f({0, 3}), Ints({0}), Int(0)}, {1, 2}, {{"num_split", int64_t{1}}}, "[0,3]"},
      {"PadV2", {f({0, 2}), Ints({2, 2}, {1, 1, 0, 0}), Tensor::Scalar(3.0f)}, {1}, {}, "[2,2]"},
      {"MirrorPad", {f({2, 0}), Ints({2, 2}, {1, 1, 0, 0})}, {1}, {{"mode", std::string("SYMMETRIC")}}, "[4,0]"},
      {"ReverseV2", {f({0, 3}), Ints({0, 1})}, {1}, {}, "[0,3]"},
      {"Roll", {f({0, 3}), Ints({2}), Ints({0})}, {1, 2}, {}, "[0,3]"},
      {"ReverseSequence", {f({0, 3}), Ints({})}, {}, {{"seq_dim", int64_t{1}}}, "[0,3]"},
      {"SpaceToDepth", {f({0, 2, 2, 1})}, {}, {{"block_size", int64_t{2}}}, "[0,1,1,4]"},
      {"SpaceToBatchND", {f({2, 0}), Ints({2}), Ints({1, 2}, {2, 2})}, {1, 2}, {}, "[4,2]"},
      {"BatchToSpaceND", {f({0, 2}), Ints({2}), Ints({1, 2}, {1, 0})}, {1, 2}, {}, "[0,3]"},
      {"MatrixBandPart", {f({2, 0, 3}), Int(0), Int(1)}, {}, {}, "[2,0,3]"},
      {"MatrixDiag", {f({2, 0})}, {}, {}, "[2,0,0]"},
      {"MatrixDiagPart", {f({2, 0, 3})}, {}, {}, "[2,0]"},
      {"GatherV2", {f({0, 3}), Ints({}), Int(0)}, {2}, {}, "[0,3]"},
      {"GatherV2", {f({2, 0}), Ints({1}), Int(0)}, {2}, {}, "[1,0]"},
      {"GatherNd", {f({0, 3}), Ints({0, 1}, {})}, {}, {}, "[0,3]"},
      {"GatherNd", {f({2, 0}), Ints({3, 1}, {0, 1, 0})}, {}, {}, "[3,0]"},
      {"ScatterNd", {Ints({0, 1}, {}), f({0, 3}), Ints({2, 3})}, {2}, {}, "[2,3]"},
      {"TensorScatterAdd", {f({0, 3}), Ints({0, 1}, {}), f({0, 3})}, {}, {}, "[0,3]"},
      {"TakeAlongAxis", {f({0, 3}), Ints({0, 3}, {})}, {}, {}, "[0,3]"},
      {"ScatterAlongAxis", {f({0, 3}), Ints({0, 3}, {}), f({0, 3})}, {}, {}, "[0,3]"},
      {"UnsortedSegmentSum", {f({2, 0}), Ints({0, 1}), Int(2)}, {2}, {}, "[2,0]"},
      {"UnsortedSegmentMax", {f({0, 2}), Ints({}), Int(0)}, {2}, {}, "[0,2]"},
      {"TopKV2", {f({2, 0}), Int(0)}, {1}, {}, "[2,0]"},
      {"TopKV2", {f({0, 5}), Int(2)}, {1}, {}, "[0,2]"},
      {"Cumsum", {f({0, 3}), Int(0)}, {1}, {}, "[0,3]"},
      {"Cumprod", {f({9, 0}), Int(1)}, {1}, {}, "[9,0]"},
      {"ArgMax", {f({0, 3}), Int(1)}, {1}, {}, "[0]"},
      {"Sum", {f({0, 3}), Ints({0})}, {1}, {}, "[3]"},
      {"Max", {f({0, 40}), Ints({1})}, {1}, {}, "[0]"},
      {"Prod", {f({3, 0}), Ints({1})}, {1}, {}, "[3]"},
      {"BatchMatMulV2", {f({0, 2, 3}), f({3, 4})}, {}, {}, "[0,2,4]"},
      {"BatchMatMulV2", {f({2, 2, 0}), f({2, 0, 4})}, {}, {}, "[2,2,4]"},
      {"ResizeBilinear", {f({0, 2, 2, 1}), Ints({3, 3})}, {1}, {}, "[0,3,3,1]"},
      {"ResizeNearestNeighbor", {f({1, 2, 2, 0}), Ints({3, 3})}, {1}, {}, "[1,3,3,0]"},
      {"Where", {Tensor(DType::kBool, {0, 2})}, {0}, {}, "[0,2]"},
      {"RandomShuffle", {f({0, 2})}, {}, {}, "[0,2]"},
  };
  for (const Empty& c : cases) {
    SCOPED_TRACE(c.op);
    std::vector<size_t> all(c.inputs.size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (const auto& constants : {c.constants, all}) {
      const auto result = EvaluateOp(c.op, c.inputs, c.attrs, constants);
      ASSERT_OK(result);
      EXPECT_EQ(result->front().shape().ToString(), c.shape);
    }
  }
}

TEST(ArrayRefusals, CountsThatNoShapeTells_AreRefusedWhenCompiled) {
  EXPECT_THAT(Refusal("Where", {Tensor::Of<bool>({2}, {true, false})}), HasSubstr("does not follow from the feeds"));
  const auto found = EvaluateOp("Where", {Tensor::Of<float>({2, 2}, {0, -1, -0.0f, 2})}, {}, {0});
  ASSERT_OK(found);
  EXPECT_THAT(Values<int64_t>(found), ElementsAre(0, 1, 1, 1));
}

TEST(ArrayRefusals, GradientThroughPreventGradient_IsAnError) {
  const Status status = testing::CheckGradients({R({2})}, Op("PreventGradient", {X{}}));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("forbids"));
}

TEST(TopK, TiesAndNan_HaveAFixedOrder) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto top = EvaluateOp("TopKV2", {Tensor::Of<float>({5}, {1, 3, nan, 3, 1}), Int(4)}, {}, {1});
  ASSERT_OK(top);
  EXPECT_THAT(Values<int32_t>(top, 1), ElementsAre(2, 1, 3, 0));
}

}  // namespace
}  // namespace rivulet
