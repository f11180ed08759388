// Ops with a size that depends on values: sessions cut a run at them, programs refuse them.
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One op, or some, of a fed vector x of floats.
class DynamicShapes : public ::testing::Test {
 protected:
  DynamicShapes() : scope_(graph_), x_(scope_.Placeholder("x", DType::kFloat32, {-1})) {}
  StatusOr<std::vector<Tensor>> Run(const std::vector<float>& x, const std::vector<std::string>& fetches) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    if (session_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(session_, Session::Create(std::move(graph_)));
    }
    const Tensor fed = Tensor::Of<float>(Shape({static_cast<int64_t>(x.size())}), x);
    return session_->Run({{"x", fed}}, fetches);
  }
  Output Integers(std::initializer_list<int32_t> values) {
    return scope_.Const(Tensor::Of<int32_t>(Shape({static_cast<int64_t>(values.size())}), values));
  }

  Graph graph_;
  Scope scope_;
  Output x_;
  std::unique_ptr<Session> session_;
};

TEST_F(DynamicShapes, BooleanMask_IsCompiledForTheSizeThatCame) {
  const Output positive = scope_.Op("Greater", {x_, scope_.Const(0.0f)});
  const Output places =
      scope_.Op("Squeeze", {scope_.Op("Where", {positive})}, {{"squeeze_dims", std::vector<int64_t>{1}}});
  const Output chosen = scope_.Op("GatherV2", {x_, places, scope_.Const(Tensor::Scalar<int32_t>(0))}, {}, "chosen");
  scope_.Op("Sum", {chosen, Integers({0})}, {}, "sum");
  for (const auto& [x, expected, sum] : std::vector<std::tuple<std::vector<float>, std::vector<float>, float>>{
           {{1, -2, 3}, {1, 3}, 4}, {{-1, -2, 5}, {5}, 5}, {{-1, -2, -3}, {}, 0}, {{1, 2, 3, 4}, {1, 2, 3, 4}, 10}}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run(x, {"chosen", "sum"}));
    EXPECT_EQ(Values<float>(values[0]), expected);
    EXPECT_EQ(values[1].flat<float>()[0], sum);
  }
}

TEST_F(DynamicShapes, GradientThroughAMask_IsThatOfTheChosen) {
  const Output positive = scope_.Op("Greater", {x_, scope_.Const(0.0f)});
  const Output places =
      scope_.Op("Squeeze", {scope_.Op("Where", {positive})}, {{"squeeze_dims", std::vector<int64_t>{1}}});
  const Output chosen = scope_.Op("GatherV2", {x_, places, scope_.Const(Tensor::Scalar<int32_t>(0))});
  const Output loss = scope_.Op("Sum", {scope_.Op("Square", {chosen}), Integers({0})});
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> gradients, ComputeGradients(graph_, loss, std::vector<Output>{x_}));
  const std::string name = gradients[0].name();
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run({1, -2, 3}, {name}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(2, 0, 6));
}

TEST_F(DynamicShapes, Unique_KeepsTheOrderOfFirstOccurrences) {
  Node* unique = scope_.AddNode("UniqueWithCounts", {x_}, {}, "u");
  ASSERT_NE(unique, nullptr);
  scope_.Op("Unique", {x_}, {}, "v");
  scope_.Op("UniqueV2", {x_, scope_.Const(Tensor(DType::kInt64, {0}))}, {}, "w");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values,
                       Run({3, 1, 3, -0.0f, 0, 1}, {"u", "u:1", "u:2", "v", "v:1", "w"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(3, 1, 0));
  EXPECT_THAT(Values<int32_t>(values[1]), ElementsAre(0, 1, 0, 2, 2, 1));
  EXPECT_THAT(Values<int32_t>(values[2]), ElementsAre(2, 2, 2));
  EXPECT_EQ(Values<float>(values[3]), Values<float>(values[0]));
  EXPECT_EQ(Values<int32_t>(values[4]), Values<int32_t>(values[1]));
  EXPECT_EQ(Values<float>(values[5]), Values<float>(values[0]));
}

TEST_F(DynamicShapes, ListDiff_KeepsWhatTheOtherLacks) {
  scope_.AddNode("ListDiff", {x_, scope_.Const(Tensor::Of<float>({2}, {1, 5}))}, {}, "d");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run({3, 1, 3, 5, 2}, {"d", "d:1"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(3, 3, 2));
  EXPECT_THAT(Values<int32_t>(values[1]), ElementsAre(0, 2, 4));
}

TEST_F(DynamicShapes, DynamicPartition_SendsRowsAndTheirGradientsBack) {
  Node* parts = scope_.AddNode("DynamicPartition", {x_, Integers({0, 1, 0, 2})}, {{"num_partitions", int64_t{3}}}, "p");
  ASSERT_NE(parts, nullptr);
  const Output scaled = scope_.Op("Mul", {parts->output(0), scope_.Const(10.0f)});
  const Output loss = scope_.Op(
      "Sum",
      {scope_.Op("ConcatV2", {scaled, parts->output(2), scope_.Const(Tensor::Scalar<int32_t>(0))}), Integers({0})});
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> gradients, ComputeGradients(graph_, loss, std::vector<Output>{x_}));
  const std::string name = gradients[0].name();
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run({1, 2, 3, 4}, {"p", "p:1", "p:2", name}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(1, 3));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(2));
  EXPECT_THAT(Values<float>(values[2]), ElementsAre(4));
  EXPECT_THAT(Values<float>(values[3]), ElementsAre(10, 0, 10, 1));
}

TEST_F(DynamicShapes, SizesThatWereComputed_AreTheValues) {
  const Output whole = scope_.Op("Cast", {x_}, {{"DstT", DType::kInt32}});
  const Output largest = scope_.Op("Max", {whole, Integers({0})});
  const Output size = scope_.Op("AddV2", {largest, scope_.Const(Tensor::Scalar<int32_t>(1))});
  const Output no_weights = scope_.Const(Tensor(DType::kFloat32, {0}));
  scope_.Op("Range", {scope_.Const(Tensor::Scalar<int32_t>(0)), size, scope_.Const(Tensor::Scalar<int32_t>(2))}, {},
            "range");
  scope_.Op("DenseBincount", {whole, size, no_weights}, {}, "dense");
  scope_.Op("Bincount", {whole, size, no_weights}, {}, "bins");
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> values, Run({3, 1, 3}, {"range", "dense", "bins"}));
  EXPECT_THAT(Values<int32_t>(values[0]), ElementsAre(0, 2));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(Values<float>(values[2]), ElementsAre(0, 1, 0, 2));
  ASSERT_OK_AND_ASSIGN(values, Run({0}, {"range", "dense", "bins"}));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(1));
  EXPECT_THAT(Run({1e9}, {"range"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of more than 16777216 elements")));
}

TEST_F(DynamicShapes, DynamicStitch_PutsRowsBackWhereTheyWere) {
  const Output which = scope_.Op("Cast", {x_}, {{"DstT", DType::kInt32}});
  const auto split = [&](Output rows) {
    return scope_.AddNode("DynamicPartition", {rows, which}, {{"num_partitions", int64_t{2}}});
  };
  Node *places = split(Integers({0, 1, 2, 3})), *rows = split(scope_.Op("Mul", {x_, scope_.Const(10.0f)}));
  scope_.Op("DynamicStitch", {places->output(0), places->output(1), rows->output(0), rows->output(1)}, {}, "back");
  scope_.Op("DynamicStitch", {which, x_}, {}, "last_wins");
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> values, Run({0, 1, 1, 0}, {"back", "last_wins"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(0, 10, 10, 0));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(0, 1));
}

TEST_F(DynamicShapes, IndexOfAStitchBelowZero_IsRefused) {
  scope_.Op("DynamicStitch", {scope_.Op("Cast", {x_}, {{"DstT", DType::kInt32}}), x_}, {}, "back");
  EXPECT_THAT(Run({0, -1}, {"back"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("indices 0 hold -1, which is not in [0,")));
}

TEST_F(DynamicShapes, PartitionBeyondTheLast_IsRefusedByItsPlace) {
  scope_.AddNode("DynamicPartition", {x_, Integers({0, 3})}, {{"num_partitions", int64_t{2}}}, "p");
  EXPECT_THAT(Run({1, 2}, {"p"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("partitions[1] is 3, and there are 2")));
}

TEST_F(DynamicShapes, Segments_AreAsManyAsTheLastIdSays) {
  const Output ids = scope_.Op("Cast", {x_}, {{"DstT", DType::kInt32}});
  for (const char* op : {"SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"})
    scope_.Op(op, {x_, ids}, {}, op);
  for (const char* op : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"})
    scope_.Op(op, {x_, ids, ids}, {}, op);
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values,
                       Run({0, 2, 2, 3}, {"SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd",
                                          "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}));
  EXPECT_THAT(Values<float>(values[0]), ElementsAre(0, 0, 4, 3));
  EXPECT_THAT(Values<float>(values[1]), ElementsAre(0, 0, 2, 3));
  EXPECT_THAT(Values<float>(values[2]), ElementsAre(0, 0, 2, 3));
  EXPECT_THAT(Values<float>(values[3]), ElementsAre(0, 0, 2, 3));
  EXPECT_THAT(Values<float>(values[4]), ElementsAre(0, 1, 4, 3));
  EXPECT_THAT(Values<float>(values[5]), ElementsAre(0, 0, 4, 3));
  EXPECT_THAT(Values<float>(values[6]), ElementsAre(0, 0, 2, 3));
  EXPECT_NEAR(values[7].flat<float>()[2], 4 / std::sqrt(2.0f), 1e-6f);
}

TEST_F(DynamicShapes, NonMaxSuppression_KeepsTheBestOfOverlappingBoxes) {
  const Output boxes = scope_.Const(Tensor::Of<float>({4, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 2, 1, 3, 1, 3, 0, 2}));
  const auto most = [&](int32_t value) { return scope_.Const(Tensor::Scalar(value)); };
  const Output overlap = scope_.Const(0.5f), least = scope_.Const(0.0f);
  scope_.AddNode("NonMaxSuppressionV3", {boxes, x_, most(3), overlap, least}, {}, "n");
  scope_.AddNode("NonMaxSuppressionV4", {boxes, x_, most(4), overlap, least}, {{"pad_to_max_output_size", true}}, "m");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run({0.5f, 0.9f, 0.3f, 0.4f}, {"n", "m", "m:1"}));
  EXPECT_THAT(Values<int32_t>(values[0]), ElementsAre(1, 3));
  EXPECT_THAT(Values<int32_t>(values[1]), ElementsAre(1, 3, 0, 0));
  EXPECT_EQ(values[2].flat<int32_t>()[0], 2);
}

TEST_F(DynamicShapes, KnownInput_NeedsNoCut) {
  const Output sizes = scope_.Op("Shape", {x_});
  scope_.Op("Where", {sizes}, {}, "w");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> values, Run({1, 2}, {"w"}));
  EXPECT_THAT(Values<int64_t>(values[0]), ElementsAre(0));
}

TEST_F(DynamicShapes, Programs_RefuseThemByName) {
  const Output places = scope_.Op("Where", {scope_.Op("Greater", {x_, scope_.Const(0.0f)})}, {}, "places");
  ASSERT_OK(scope_.status());
  Signature signature;
  signature.feeds = {{"x", {DType::kFloat32, Shape{4}}}};
  signature.fetches = {places.name()};
  EXPECT_THAT(
      CompileProgram(graph_, signature).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("output 0 of Where 'places' has shape [?,1], which does not follow from the feeds. Where "
                         "a size depends on values, a session can run the graph, and training cannot")));
}

}  // namespace
}  // namespace rivulet
