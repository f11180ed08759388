#include "engine/graph/symbolic_values.h"

#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;

std::string Named(int symbol) { return std::string(1, static_cast<char>('a' + symbol / 2)); }

Dimension D(int symbol) { return Dimension::OfSymbol(symbol); }
std::string Text(const std::optional<Dimension>& dimension) { return dimension ? dimension->ToString(Named) : "none"; }

TEST(Dimension, SumsAndProducts_AreExpanded) {
  const Dimension a = D(0), b = D(2);
  EXPECT_EQ(Text(a.Plus(b)->Times(*a.Minus(b))), "a·a + -1·b·b");
  EXPECT_EQ(Text(a.Times(4)->Plus(3)), "4·a + 3");
  EXPECT_EQ(a.Minus(a), Dimension(0));
  EXPECT_EQ(Text(a.Times(b)->Times(0)), "0");
}

TEST(Dimension, Quotient_IsExactOrNone) {
  const Dimension a = D(0), b = D(2);
  EXPECT_EQ(Text(a.Times(256)->Over(a)), "256");
  EXPECT_EQ(Text(a.Times(b)->Times(6)->Over(*b.Times(2))), "3·a");
  EXPECT_EQ(Text(a.Plus(b)->Times(*a.Plus(1))->Over(*a.Plus(b))), "a + 1");
  EXPECT_EQ(Text(a.Times(8)->Plus(3)->Over(4)), "2·a");
  EXPECT_EQ(Text(a.Times(8)->Minus(3)->Over(4)), "2·a + -1");
  EXPECT_EQ(Text(a.Over(2)), "none");
  EXPECT_EQ(Text(Dimension(7).Over(a)), "none");
  EXPECT_EQ(Text(a.Over(0)), "none");
  EXPECT_EQ(Text(Dimension(-7).Over(2)), "-4");
}

TEST(Dimension, Overflow_HasNoValue) {
  const Dimension large = int64_t{1} << 62;
  EXPECT_FALSE(large.Plus(large));
  EXPECT_FALSE(D(0).Times(large)->Times(4));
  EXPECT_FALSE(Dimension(std::numeric_limits<int64_t>::min()).Over(-1));
  Dimension power = D(0);
  for (int i = 0; i < 7; ++i) power = *power.Times(D(0));
  EXPECT_FALSE(power.Times(D(0)));
}

TEST(Dimension, Bounds_OfSizesAlone) {
  EXPECT_EQ(D(0).Plus(1)->Least(), 2);
  EXPECT_EQ(D(0).Times(-1)->Most(), -1);
  EXPECT_FALSE(D(0).Most());
  EXPECT_FALSE(D(1).Least());  // an odd symbol may be anything
}

class SymbolicValuesTest : public ::testing::Test {
 protected:
  SymbolicValuesTest()
      : scope_(graph_),
        values_([](Output output) -> const Shape& { return output.shape(); }, SymbolicValues::Sizes::kFollowOps) {
    x_ = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 16, 4, 4});
    values_.Name(x_, 0, "batch");
  }
  std::vector<std::string> Value(Output output) {
    EXPECT_OK(scope_.status());
    const Elements* const elements = values_.ValueOf(output);
    if (elements == nullptr) return {"none"};
    std::vector<std::string> texts;
    for (const Dimension& value : elements->values) texts.push_back(values_.Describe(value));
    return texts;
  }
  std::vector<std::string> Sizes(Output output) {
    EXPECT_OK(scope_.status());
    const std::vector<Dimension>* const sizes = values_.SizesOf(output);
    if (sizes == nullptr) return {"none"};
    const std::vector<Dimension> kept = *sizes;
    std::vector<std::string> texts;
    for (const Dimension& size : kept) texts.push_back(values_.Describe(size));
    return texts;
  }
  Output Ints(std::initializer_list<int64_t> values) {
    return scope_.Const(Tensor::Of<int64_t>(Shape{static_cast<int64_t>(values.size())}, values));
  }
  Output Int(int64_t value) { return scope_.Const(Tensor::Scalar(value)); }
  Output ShapeOf(Output x) { return scope_.Op("Shape", {x}, {{"out_type", DType::kInt64}}); }
  Output At(Output vector, int64_t i) {
    return scope_.Op("StridedSlice", {vector, Ints({i}), Ints({i + 1}), Ints({1})}, {{"shrink_axis_mask", int64_t{1}}});
  }

  Graph graph_;
  Scope scope_;
  SymbolicValues values_;
  Output x_;
};

TEST_F(SymbolicValuesTest, OneOpenSize_LeavesTheOthersKnown) {
  const Output shape = ShapeOf(x_);
  EXPECT_THAT(Value(shape), ElementsAre("batch", "16", "4", "4"));
  EXPECT_THAT(Value(scope_.Op("Pack", {At(shape, 0), Int(-1)})), ElementsAre("batch", "-1"));
  EXPECT_THAT(Value(scope_.Op("ConcatV2", {scope_.Op("Mul", {shape, Ints({1, 2, 1, 1})}), Ints({7}), Int(0)})),
              ElementsAre("batch", "32", "4", "4", "7"));
  EXPECT_THAT(Value(scope_.Op("Size", {x_}, {{"out_type", DType::kInt64}})), ElementsAre("256·batch"));
}

TEST_F(SymbolicValuesTest, SizesFollowThroughEveryOp) {
  const Output y = scope_.Op("Relu", {scope_.Op("Transpose", {x_, Ints({0, 2, 3, 1})})});
  EXPECT_THAT(Sizes(y), ElementsAre("batch", "4", "4", "16"));
  const Output flat = scope_.Op("Reshape", {y, Ints({-1, 16})});
  EXPECT_THAT(Sizes(flat), ElementsAre("16·batch", "16"));
  EXPECT_THAT(Sizes(scope_.Op("ConcatV2", {flat, flat, Int(0)})), ElementsAre("32·batch", "16"));
}

TEST_F(SymbolicValuesTest, RestOfAReshape_IsAQuotient) {
  const Output y = scope_.Op("Relu", {x_});
  const Output flat = scope_.Op("Reshape", {y, scope_.Op("Pack", {At(ShapeOf(x_), 0), Int(-1)})});
  EXPECT_THAT(Sizes(flat), ElementsAre("batch", "256"));
  EXPECT_EQ(flat.shape(), (Shape{kUnknownDim, kUnknownDim}));  // a Shape stays as it is
}

TEST_F(SymbolicValuesTest, SizeBehindAStride_IsItsOwn) {
  const Output image = scope_.Placeholder("image", DType::kFloat32, Shape{1, kUnknownDim, 8, 3});
  values_.Name(image, 1, "height");
  const Output pooled = scope_.Op("MaxPool", {image},
                                  {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                                   {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                                   {"padding", std::string("SAME")}});
  EXPECT_THAT(Sizes(pooled), ElementsAre("1", "axis 1 of 'MaxPool'", "4", "3"));
  const Output valid = scope_.Op("MaxPool", {image},
                                 {{"ksize", std::vector<int64_t>{1, 3, 3, 1}},
                                  {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                                  {"padding", std::string("VALID")}});
  EXPECT_THAT(Sizes(valid), ElementsAre("1", "height + -2", "6", "3"));
}

TEST_F(SymbolicValuesTest, EqualNames_AreOneSize) {
  const Output other = scope_.Placeholder("other", DType::kFloat32, Shape{kUnknownDim, 1, 4, 4});
  const Output third = scope_.Placeholder("third", DType::kFloat32, Shape{kUnknownDim, 1, 4, 4});
  values_.Name(other, 0, "batch");
  EXPECT_THAT(Sizes(scope_.Op("AddV2", {x_, other})), ElementsAre("batch", "16", "4", "4"));
  EXPECT_THAT(Sizes(scope_.Op("AddV2", {x_, third})), ElementsAre("axis 0 of 'AddV2_1'", "16", "4", "4"));
}

TEST_F(SymbolicValuesTest, ComparisonsOfSizes_AreDecidedWhereTheyMustBe) {
  const Output shape = ShapeOf(x_);
  EXPECT_THAT(Value(scope_.Op("Equal", {shape, Ints({-1, 16, -1, 5})})), ElementsAre("0", "1", "0", "0"));
  const Output where =
      scope_.Op("SelectV2", {scope_.Op("Less", {shape, Ints({0, 0, 9, 0})}), Ints({1, 1, 1, 1}), shape});
  EXPECT_THAT(Value(where), ElementsAre("batch", "16", "1", "4"));
  EXPECT_THAT(Value(scope_.Op("Maximum", {At(shape, 0), Int(1)})), ElementsAre("batch"));
  EXPECT_THAT(Value(scope_.Op("Maximum", {At(shape, 0), Int(2)})), ElementsAre("element 0 of 'Maximum_1'"));
}

TEST_F(SymbolicValuesTest, ValuesThatAreFed_AreSaidToBe) {
  const Output fed = scope_.Placeholder("sizes", DType::kInt64, Shape{2});
  const Output doubled = scope_.Op("Mul", {fed, Ints({2, 2})});
  EXPECT_THAT(Value(doubled), ElementsAre("2·element 0 of 'sizes'", "2·element 1 of 'sizes'"));
  std::vector<int> symbols;
  values_.ValueOf(doubled)->values[0].AddSymbols(symbols);
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_TRUE(values_.symbol(symbols[0]).fed);
  EXPECT_TRUE(values_.IsFed(*doubled.node));
  EXPECT_FALSE(values_.IsFed(*ShapeOf(x_).node));
}

TEST_F(SymbolicValuesTest, MovesOfElements) {
  const Output shape = ShapeOf(x_);
  EXPECT_THAT(Value(scope_.Op("GatherV2", {shape, Ints({3, 0}), Int(0)})), ElementsAre("4", "batch"));
  EXPECT_THAT(Value(scope_.Op("Tile", {scope_.Op("Slice", {shape, Ints({0}), Ints({2})}), Ints({2})})),
              ElementsAre("batch", "16", "batch", "16"));
  EXPECT_THAT(Value(scope_.Op("Cumsum", {shape, Int(0)}, {{"reverse", true}})),
              ElementsAre("batch + 24", "24", "8", "4"));
  EXPECT_THAT(Value(scope_.Op("Transpose", {scope_.Op("Reshape", {shape, Ints({2, 2})}), Ints({1, 0})})),
              ElementsAre("batch", "4", "16", "4"));
  EXPECT_THAT(Value(scope_.Op("Range", {Int(2), Int(8), Int(3)})), ElementsAre("2", "5"));
  EXPECT_THAT(Value(scope_.Op("Fill", {Ints({2}), At(shape, 0)})), ElementsAre("batch", "batch"));
  EXPECT_THAT(Value(scope_.Op("BroadcastTo", {Ints({7}), Ints({2, 2})})), ElementsAre("7", "7", "7", "7"));
}

TEST_F(SymbolicValuesTest, LongChain_IsWalkedWithoutRecursion) {
  Output y = x_;
  for (int i = 0; i < 20'000; ++i) y = scope_.Op("Neg", {y});
  EXPECT_THAT(Value(ShapeOf(y)), ElementsAre("batch", "16", "4", "4"));
}

TEST(ShapeFunctions, KnowTheSizesThatAreKnown) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 6});
  const auto ints = [&](std::initializer_list<int32_t> values) {
    return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, values));
  };
  const Output batch = scope.Op("StridedSlice", {scope.Op("Shape", {x}), ints({0}), ints({1}), ints({1})});
  const Output sizes = scope.Op("ConcatV2", {batch, ints({2, 3}), scope.Const(Tensor::Scalar(0))});
  EXPECT_EQ(scope.Op("Reshape", {x, sizes}).shape(), (Shape{kUnknownDim, 2, 3}));
  EXPECT_EQ(scope.Op("BroadcastTo", {scope.Const(Tensor::Scalar(0.0f)), sizes}).shape(), (Shape{kUnknownDim, 2, 3}));
  const Output image = scope.Placeholder("image", DType::kFloat32, Shape{4, 2, 1});
  EXPECT_EQ(scope.Op("Tile", {image, sizes}).shape(), (Shape{kUnknownDim, 4, 3}));
  const Output ends = scope.Op("ConcatV2", {ints({3}), batch, scope.Const(Tensor::Scalar(0))});
  const auto cut = [&](AttrMap masks) {
    return scope.Op("StridedSlice", {image, ints({1, 0}), ends, ints({1, 1})}, std::move(masks)).shape();
  };
  EXPECT_EQ(cut({}), (Shape{2, kUnknownDim, 1}));
  EXPECT_EQ(cut({{"end_mask", int64_t{2}}}), (Shape{2, 2, 1}));
  EXPECT_EQ(cut({{"shrink_axis_mask", int64_t{1}}}), (Shape{kUnknownDim, 1}));
  EXPECT_EQ(cut({{"new_axis_mask", int64_t{1}}}), (Shape{1, kUnknownDim, kUnknownDim, kUnknownDim}));
  EXPECT_OK(scope.status());
}

}  // namespace
}  // namespace rivulet
