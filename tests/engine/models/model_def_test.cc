// Models from imported graphs.
#include "engine/models/model_def.h"

#include <cmath>

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/objectives/objective.h"
#include "engine/presets/presets.h"
#include "engine/variables/initializers.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class ModelFromGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(preset_, Preset("logistic_regression"));
    bytes_ = SerializeGraph(preset_.graph);
  }
  // The preset's bytes after `change` added nodes to it.
  template <typename Change>
  std::string With(Change change) {
    const Scope scope(preset_.graph);
    change(scope);
    EXPECT_OK(scope.status());
    return SerializeGraph(preset_.graph);
  }
  ModelDef preset_;
  std::string bytes_;
};

TEST_F(ModelFromGraphTest, PresetWrittenAndRead_IsTheSameModel) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, ModelFromGraph(bytes_, {}));
  EXPECT_EQ(model.classes, 10);
  ASSERT_EQ(model.variables.size(), 2u);
  EXPECT_EQ(model.variables[0].name, "dense1/kernel");
  EXPECT_EQ(model.input.spec, preset_.input.spec);
  EXPECT_EQ(model.label.spec, preset_.label.spec);
}

TEST_F(ModelFromGraphTest, Int32Label_GetsAnInt64Placeholder) {
  const std::string bytes = With([](const Scope& s) {
    const Output label = s.Placeholder("label32", DType::kInt32, Shape{kUnknownDim});
    const Output losses =
        s.Op("SparseSoftmaxCrossEntropyWithLogits", {s.graph().FindOutput("logits").value(), label}, {}, "losses32");
    s.Op("Mean", {losses, s.Const(Tensor::Of<int32_t>(Shape{1}, {0}))}, {}, "loss32");
  });
  ASSERT_OK_AND_ASSIGN(ModelDef model, ModelFromGraph(bytes, {.label = "label32", .loss = "loss32", .metrics = {}}));
  EXPECT_EQ(model.label.spec, (TensorSpec{DType::kInt64, Shape{kUnknownDim}}));
  EXPECT_EQ(model.label.placeholder, "label32/int64");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph)));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  EXPECT_OK(session->Run({{"image", Tensor(DType::kFloat32, Shape{2, 28, 28, 1})},
                          {"label32/int64", Tensor::Of<int64_t>(Shape{2}, {1, 2})}},
                         {"loss32"}));
}

TEST_F(ModelFromGraphTest, MissingPart_NamesTheNearest) {
  EXPECT_THAT(ModelFromGraph(bytes_, {.loss = "los"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no node 'los'. Did you mean 'loss'?")));
  EXPECT_THAT(
      ModelFromGraph(bytes_, {.init_target = "initialise"}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("no node 'initialise'. A frozen graph holds its weights as "
                                                      "constants: `rivulet model import FILE --out DIR`")));
}

TEST_F(ModelFromGraphTest, LossThatIsNoScalar_IsRefused) {
  EXPECT_THAT(
      ModelFromGraph(bytes_, {.loss = "cross_entropy"}),
      StatusIs(kInvalid,
               "the loss 'cross_entropy' is float32[?], but must be a float32 scalar, the mean over the batch"));
}

TEST_F(ModelFromGraphTest, MetricThatIsNoScalar_IsRefused) {
  EXPECT_THAT(ModelFromGraph(bytes_, {.metrics = {{"acc", "prediction"}}}),
              StatusIs(kInvalid, HasSubstr("the metric 'acc': 'prediction' is int64[?]")));
}

TEST_F(ModelFromGraphTest, InputThatIsNoPlaceholder_IsRefused) {
  EXPECT_THAT(ModelFromGraph(bytes_, {.image = "flatten/Reshape"}),
              StatusIs(kInvalid, "the image input 'flatten/Reshape' is a Reshape, but must be a Placeholder"));
}

TEST_F(ModelFromGraphTest, FloatsAsLabel_AreNumbersToBePredicted) {
  Graph graph;
  const Scope s(graph);
  const Output x = s.Placeholder("image", DType::kFloat32, Shape{kUnknownDim, 2});
  const Output y = s.Placeholder("label", DType::kFloat32, Shape{kUnknownDim, 1});
  const Output w = Variable(s, "w", {2, 1}, Zeros());
  MeanOf(s, s.Op("SquaredDifference", {s.Op("MatMul", {x, w}), y}), "loss");
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(const ModelDef model, ModelFromGraph(SerializeGraph(graph), {.metrics = {}}));
  EXPECT_EQ(model.label.encoding, FeatureEncoding::kFloat);
  EXPECT_EQ(model.label.upper_bound, 0);
  EXPECT_EQ(model.classes, 0);
}

// A graph of numbers and of the integers of one more placeholder.
std::string TwoInputs() {
  Graph graph;
  const Scope s(graph);
  const Output x = s.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 2});
  const Output tokens = s.Placeholder("tokens", DType::kInt32, Shape{kUnknownDim, kUnknownDim});
  const Output y = s.Placeholder("label", DType::kFloat32, Shape{kUnknownDim, 1});
  const Output w = Variable(s, "w", {2, 1}, Zeros());
  const Output sum =
      s.Op("Sum", {s.Op("Cast", {tokens}, {{"DstT", DType::kFloat32}}), s.Const(Tensor::Of<int32_t>(Shape{1}, {1}))},
           {{"keep_dims", true}});
  const Output predicted = s.Op("AddV2", {s.Op("MatMul", {x, w}), sum}, {}, "predicted");
  MeanOf(s, s.Op("SquaredDifference", {predicted, y}), "loss");
  EXPECT_OK(s.status());
  return SerializeGraph(graph);
}

TEST_F(ModelFromGraphTest, NamedInputs_AreFedEachFromItsFeature) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model,
                       ModelFromGraph(TwoInputs(), {.inputs = {{"x", {}, FeatureEncoding::kFloat, 0, "numbers"},
                                                               {"tokens", {3}, FeatureEncoding::kInt64, 7}},
                                                    .metrics = {}}));
  EXPECT_EQ(model.input.placeholder, "x");
  EXPECT_EQ(model.input.scale, 1);
  EXPECT_EQ(model.input.feature, "numbers");
  ASSERT_EQ(model.more_inputs.size(), 1u);
  EXPECT_EQ(model.more_inputs[0].placeholder, "tokens/int64") << "integers are fed as int64";
  EXPECT_EQ(model.more_inputs[0].spec, (TensorSpec{DType::kInt64, {kUnknownDim, 3}}));
  EXPECT_EQ(model.more_inputs[0].feature, "tokens");
  EXPECT_EQ(model.more_inputs[0].upper_bound, 7);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(model.graph.Clone()));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK_AND_ASSIGN(const auto predicted,
                       session->Run({{"x", Tensor::Of<float>(Shape{1, 2}, {1, 1})},
                                     {"tokens/int64", Tensor::Of<int64_t>(Shape{1, 3}, {1, 2, 3})}},
                                    {"predicted"}));
  EXPECT_EQ(predicted[0].flat<float>()[0], 6);
}

TEST_F(ModelFromGraphTest, NamedInputsThatDoNotFit_AreRefused) {
  const auto error = [](std::vector<InputSpec> inputs) {
    return testing::ErrorOf(ModelFromGraph(TwoInputs(), {.inputs = std::move(inputs), .metrics = {}}));
  };
  const InputSpec x = {"x", {}, FeatureEncoding::kFloat}, tokens = {"tokens", {3}, FeatureEncoding::kInt64};
  EXPECT_THAT(error({x, {"token", {}, FeatureEncoding::kInt64}}), HasSubstr("Did you mean 'tokens'?"));
  EXPECT_THAT(error({x, {"tokens", {}, FeatureEncoding::kInt64}}), HasSubstr("give it a shape"));
  EXPECT_THAT(error({x, {"tokens", {3}}}), HasSubstr("pixels and values are float32, and tokens integers"));
  EXPECT_THAT(error({{"x", {3}, FeatureEncoding::kFloat}, tokens}), HasSubstr("which examples [3] do not fit"));
  EXPECT_THAT(error({x, x}), HasSubstr("'x' is named as an input twice"));
  EXPECT_THAT(error({x, {"label", {}, FeatureEncoding::kFloat}}),
              HasSubstr("'label' is named as the input and as the label"));
}

TEST_F(ModelFromGraphTest, ImageAndLabelSwapped_AreRefused) {
  EXPECT_THAT(ModelFromGraph(bytes_, {.image = "label", .label = "image"}),
              StatusIs(kInvalid, HasSubstr("the image input 'label' is int64[?], but must be float32")));
  EXPECT_THAT(ModelFromGraph(bytes_, {.label = "image"}),
              StatusIs(kInvalid, "'image' is named as the image input and as the label input"));
}

TEST_F(ModelFromGraphTest, VariableWithoutFirstValue_IsRefused) {
  const std::string bytes = With([](const Scope& s) {
    const Output w = s.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}}, "scale");
    const Output read = s.Op("ReadVariableOp", {w}, {{"dtype", DType::kFloat32}});
    s.Op("Mul", {s.graph().FindOutput("loss").value(), read}, {}, "scaled");
  });
  EXPECT_THAT(ModelFromGraph(bytes, {.loss = "scaled"}),
              StatusIs(kInvalid, "the variable 'scale' gets no first value from 'init'"));
}

TEST_F(ModelFromGraphTest, NothingToTrain_IsRefused) {
  const std::string bytes = With([](const Scope& s) {
    const Output c = s.Const(1.0f, "constant_loss");
    s.AddNode("NoOp", {}, {}, "nothing");
    (void)c;
  });
  EXPECT_THAT(ModelFromGraph(bytes, {.loss = "constant_loss", .metrics = {}, .init_target = "nothing", .classes = 2}),
              StatusIs(kInvalid, HasSubstr("the graph has no variables")));
}

TEST_F(ModelFromGraphTest, ClassesThatDoNotFollow_MustBeStated) {
  const std::string bytes = With([](const Scope& s) {
    const Output w = s.graph().FindOutput("dense1/bias/Read").value();
    s.Op("Sum", {s.Op("Mul", {w, w}), s.Const(Tensor::Of<int32_t>(Shape{1}, {0}))}, {}, "norm");
  });
  EXPECT_THAT(ModelFromGraph(bytes, {.loss = "norm", .metrics = {}}),
              StatusIs(kInvalid, HasSubstr("the number of classes does not follow from the loss 'norm'")));
  EXPECT_OK(ModelFromGraph(bytes, {.loss = "norm", .metrics = {}, .classes = 10}));
}

TEST_F(ModelFromGraphTest, NoGraph_IsDataLoss) {
  EXPECT_THAT(ModelFromGraph("\x01\x02", {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(VariablesOfTest, TwoOfOneNameThatDiffer_AreRefused) {
  Graph graph;
  const Scope scope(graph);
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("w")}},
           "a");
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat64}, {"shape", Shape{2}}, {"shared_name", std::string("w")}},
           "b");
  EXPECT_THAT(VariablesOf(graph),
              StatusIs(kInvalid, HasSubstr("the variable 'w' is both float32[2] (trainable) and float64[2]")));
}

TEST(VariablesOfTest, UnknownSegment_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"_segment", std::string("mine")}},
           "a");
  EXPECT_THAT(VariablesOf(graph), StatusIs(kInvalid, HasSubstr("the variable 'a' has the segment 'mine'")));
}

// First values: range and spread of 20,000 draws.
struct Spread {
  double low, high, mean, stddev;
};
Spread Draw(const Initializer& initializer, const Shape& shape) {
  Graph graph;
  const Scope scope(graph);
  const Output value = initializer(scope, DType::kFloat32, shape);
  EXPECT_OK(scope.status());
  const auto session = Session::Create(std::move(graph), {.seed = 3});
  const auto values = (*session)->Run({}, {value.name()});
  EXPECT_OK(values);
  if (!values.ok()) return {};
  double sum = 0, squares = 0, low = 1e9, high = -1e9;
  for (float v : (*values)[0].flat<float>()) {
    sum += v;
    squares += static_cast<double>(v) * v;
    low = std::min<double>(low, v);
    high = std::max<double>(high, v);
  }
  const double n = static_cast<double>(shape.elements()), mean = sum / n;
  return {low, high, mean, std::sqrt(squares / n - mean * mean)};
}

TEST(InitializerValuesTest, GlorotUniform_FillsItsRange) {
  const double limit = std::sqrt(6.0 / (100 + 200));
  const Spread spread = Draw(GlorotUniform(), Shape{100, 200});
  EXPECT_GE(spread.low, -limit);
  EXPECT_LE(spread.high, limit);
  EXPECT_NEAR(spread.stddev, limit / std::sqrt(3.0), 0.01 * limit);
  EXPECT_NEAR(spread.mean, 0, 0.02 * limit);
}

TEST(InitializerValuesTest, ConvolutionFans_CountTheReceptiveField) {
  const double limit = std::sqrt(6.0 / (25 * 10 + 25 * 80));
  const Spread spread = Draw(GlorotUniform(), Shape{5, 5, 10, 80});
  EXPECT_GE(spread.low, -limit);
  EXPECT_LE(spread.high, limit);
  EXPECT_GT(spread.high, 0.99 * limit);
}

TEST(InitializerValuesTest, HeNormal_HasItsVarianceAfterTruncation) {
  const double stddev = std::sqrt(2.0 / 100);
  const Spread spread = Draw(HeNormal(), Shape{100, 200});
  EXPECT_NEAR(spread.stddev, stddev, 0.02 * stddev);
  EXPECT_LE(spread.high, 2 * stddev / 0.87962566103423978 + 1e-6);
}

TEST(InitializerValuesTest, TruncatedNormal_StaysWithinTwoDeviations) {
  const Spread spread = Draw(TruncatedNormal(1, 0.5), Shape{100, 200});
  EXPECT_GE(spread.low, 0.0 - 1e-6);
  EXPECT_LE(spread.high, 2.0 + 1e-6);
  EXPECT_NEAR(spread.mean, 1, 0.02);
}

TEST(InitializerValuesTest, RandomNormal_HasItsMeanAndDeviation) {
  const Spread spread = Draw(RandomNormal(2, 0.5), Shape{100, 200});
  EXPECT_NEAR(spread.mean, 2, 0.02);
  EXPECT_NEAR(spread.stddev, 0.5, 0.01);
}

TEST(InitializerValuesTest, VarianceScaling_HasItsVariance) {
  for (const char* distribution : {"uniform", "normal", "truncated_normal"}) {
    const Spread spread = Draw(VarianceScaling(3, "fan_out", distribution), Shape{300, 200});
    EXPECT_NEAR(spread.stddev, std::sqrt(3.0 / 200), 0.002) << distribution;
  }
  Graph graph;
  const Scope scope(graph);
  VarianceScaling(1, "fan_side")(scope, DType::kFloat32, Shape{2, 2});
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not 1 and 'fan_side'")));
}

// The first value of a variable of this shape.
std::vector<float> ValueOf(const Initializer& initializer, const Shape& shape) {
  Graph graph;
  const Scope scope(graph);
  Variable(scope, "w", shape, initializer);
  EXPECT_OK(scope.status());
  const auto session = Session::Create(std::move(graph));
  EXPECT_OK(session);
  EXPECT_OK((*session)->Run({}, {}, {"init"}));
  const auto value = (*session)->GetVariable("w");
  EXPECT_OK(value);
  const auto flat = value->flat<float>();
  return {flat.begin(), flat.end()};
}

TEST(InitializerValuesTest, Orthogonal_HasOrthonormalRowsOrColumns) {
  for (const auto& [rows, columns, shape] :
       {std::tuple{5, 3, Shape{5, 3}}, {3, 7, Shape{3, 7}}, {18, 4, Shape{3, 3, 2, 4}}}) {
    SCOPED_TRACE(shape.ToString());
    const std::vector<float> w = ValueOf(Orthogonal(2), shape);
    const int small = std::min(rows, columns), large = std::max(rows, columns);
    const auto at = [&, wide = rows < columns](int i, int k) {
      return w[static_cast<size_t>(wide ? i * columns + k : k * columns + i)];
    };
    for (int i = 0; i < small; ++i)
      for (int j = 0; j < small; ++j) {
        double dot = 0;
        for (int k = 0; k < large; ++k) dot += static_cast<double>(at(i, k)) * at(j, k);
        EXPECT_NEAR(dot, i == j ? 4 : 0, 2e-6);
      }
  }
  Graph graph;
  const Scope scope(graph);
  Orthogonal()(scope, DType::kFloat32, Shape{4});
  EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two axes or more, not [4]")));
}

TEST(InitializerValuesTest, Identity_IsTheDiagonal) {
  EXPECT_THAT(ValueOf(Identity(2), Shape{2, 3}), ::testing::ElementsAre(2, 0, 0, 0, 2, 0));
}

TEST(InitializerValuesTest, Constants_AreConstant) {
  const Spread spread = Draw(Constant(-1.5), Shape{3, 4});
  EXPECT_EQ(spread.low, -1.5);
  EXPECT_EQ(spread.high, -1.5);
  EXPECT_EQ(Draw(Ones(), Shape{}).high, 1.0);
}

}  // namespace
}  // namespace rivulet
