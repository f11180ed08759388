// Metrics of language models: labels that do not count, and means over tokens that do not depend on the batch.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "dataflow/session/session.h"
#include "engine/models/layer_list.h"
#include "engine/models/metrics/metric.h"
#include "engine/presets/presets.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int64_t kIgnored = -100;

// Scores of three classes at each of two positions, which are the input itself.
StatusOr<ModelDef> TwoPositions(bool ignores) {
  ClassifierOptions options;
  options.inputs = {{"x", {2, 3}, FeatureEncoding::kFloat}};
  if (ignores) options.loss_settings["ignore_label"] = kIgnored;
  options.metrics = {"accuracy", "perplexity", "exact_match"};
  return Classifier(options, ModelBody([](Layers& layers, Output x) {
                      const Scope& scope = layers.scope();
                      const Output scale = layers.Weight(scope, "scale", "value", Shape{1, 1}, Ones());
                      return scope.Op("Mul", {x, scale});
                    }));
}

// With the scores 0, 0 and log 2, class 2 has a half and the others a quarter each.
Tensor Scores(int64_t rows) {
  Tensor scores(DType::kFloat32, Shape{rows, 2, 3});
  for (size_t i = 2; i < scores.flat<float>().size(); i += 3) scores.flat<float>()[i] = std::numbers::ln2_v<float>;
  return scores;
}

std::vector<Tensor> Measured(const ModelDef& model, const Tensor& labels) {
  auto session = Session::Create(model.graph.Clone());
  EXPECT_OK(session);
  EXPECT_OK((*session)->Run({}, {}, {model.init_target}));
  std::vector<std::string> tensors = {model.eval_loss};
  for (const auto& [name, tensor] : model.metrics) tensors.push_back(tensor);
  auto values = (*session)->Run({{"x", Scores(labels.shape().dim(0))}, {"label", labels}}, tensors);
  EXPECT_OK(values);
  return *std::move(values);
}

FinishedCounts Finished(const Tensor& counts) {
  std::vector<double> sums(counts.flat<float>().begin(), counts.flat<float>().end());
  return FinishOf("perplexity")(sums);
}

TEST(IgnoredLabels, CountForNothing) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(true));
  EXPECT_EQ(model.label.upper_bound, 0);
  // Of four places two count: one of class 2, a loss of log 2, and one of class 0, a loss of log 4.
  const auto values = Measured(model, Tensor::Of<int64_t>(Shape{2, 2}, {2, kIgnored, kIgnored, 0}));
  EXPECT_NEAR(values[0].flat<float>()[0], 1.5 * std::numbers::ln2, 1e-6);
  EXPECT_FLOAT_EQ(values[1].flat<float>()[0], 0.5f);
  const FinishedCounts finished = Finished(values[2]);
  EXPECT_NEAR(finished.at(""), std::pow(2, 1.5), 1e-4);
  EXPECT_NEAR(finished.at("_loss"), 1.5 * std::numbers::ln2, 1e-5);
}

// The first example's only label is right; of the second one is and one is not.
TEST(IgnoredLabels, ExactMatch_IsOfTheOthers) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(true));
  const auto values = Measured(model, Tensor::Of<int64_t>(Shape{2, 2}, {2, kIgnored, 2, 0}));
  EXPECT_FLOAT_EQ(values[3].flat<float>()[0], 0.5f);
}

TEST(IgnoredLabels, AMetricOfAllLabels_IsRefused) {
  ClassifierOptions options;
  options.inputs = {{"x", {3}, FeatureEncoding::kFloat}};
  options.loss_settings["ignore_label"] = kIgnored;
  options.metrics = {"f1"};
  const auto model = Classifier(options, ModelBody([](Layers& layers, Output x) { return layers.Dense("d", x, 3); }));
  EXPECT_THAT(Message(model.status()), HasSubstr("the metric 'f1' is of all labels"));
}

// Gradients are of the rows that count alone.
TEST(IgnoredLabels, MakeNoGradient) {
  ClassifierOptions options;
  options.inputs = {{"x", {3}, FeatureEncoding::kFloat}};
  options.loss_settings["ignore_label"] = kIgnored;
  const auto trained = [&](const Tensor& x, const Tensor& labels) {
    auto model = Classifier(options, ModelBody([](Layers& layers, Output in) { return layers.Dense("d", in, 3); }));
    EXPECT_OK(model);
    OptimizerSpec sgd;
    sgd.learning_rate = 0.5;
    const auto step = testing::AddTrainingStep(*model, sgd);
    EXPECT_OK(step);
    SessionConfig config;
    config.seed = 3;
    auto session = Session::Create(model->graph.Clone(), config);
    EXPECT_OK(session);
    EXPECT_OK((*session)->Run({}, {}, {model->init_target}));
    EXPECT_OK((*session)->Run({{"x", x}, {"label", labels}}, {}, {*step}));
    auto kernel = (*session)->GetVariable("d/kernel");
    EXPECT_OK(kernel);
    return std::vector<float>(kernel->flat<float>().begin(), kernel->flat<float>().end());
  };
  const auto some =
      trained(Tensor::Of<float>(Shape{2, 3}, {1, 2, 3, 9, -9, 9}), Tensor::Of<int64_t>({2}, {1, kIgnored}));
  const auto one = trained(Tensor::Of<float>(Shape{1, 3}, {1, 2, 3}), Tensor::Of<int64_t>({1}, {1}));
  EXPECT_THAT(some, ::testing::Pointwise(::testing::FloatNear(1e-6f), one));
}

TEST(IgnoredLabels, ABatchOfThemAlone_HasTheLossZero) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(true));
  const auto values = Measured(model, Tensor::Of<int64_t>(Shape{1, 2}, {kIgnored, kIgnored}));
  EXPECT_EQ(values[0].flat<float>()[0], 0);
  EXPECT_TRUE(Finished(values[2]).empty());
}

TEST(IgnoredLabels, WithoutTheSetting_EveryRowCounts) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(false));
  EXPECT_EQ(model.label.upper_bound, 3);
  const auto values = Measured(model, Tensor::Of<int64_t>(Shape{1, 2}, {2, 0}));
  EXPECT_NEAR(values[0].flat<float>()[0], 1.5 * std::numbers::ln2, 1e-6);
  EXPECT_NEAR(Finished(values[2]).at(""), std::pow(2, 1.5), 1e-4);
}

// Three batches of unlike numbers of tokens give the sums of one.
TEST(Perplexity, IsTheSameForAnyBatches) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(true));
  const std::vector<int64_t> labels = {2, kIgnored, 0, 1, kIgnored, kIgnored};
  const Tensor whole = Measured(model, Tensor::Of<int64_t>(Shape{3, 2}, std::span<const int64_t>(labels)))[2];
  std::vector<double> sums(3);
  for (size_t row = 0; row < 3; ++row) {
    const Tensor part = Measured(model, Tensor::Of<int64_t>(Shape{1, 2}, {labels[2 * row], labels[2 * row + 1]}))[2];
    for (size_t i = 0; i < 3; ++i) sums[i] += static_cast<double>(part.flat<float>()[i]);
  }
  EXPECT_EQ(FinishOf("perplexity")(sums), Finished(whole));
}

TEST(Perplexity, OfScoresThatAreNoNumbers_IsInfinite) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, TwoPositions(false));
  auto session = Session::Create(model.graph.Clone());
  ASSERT_OK(session);
  ASSERT_OK((*session)->Run({}, {}, {model.init_target}));
  Tensor scores(DType::kFloat32, Shape{1, 2, 3});
  std::ranges::fill(scores.flat<float>(), std::numeric_limits<float>::quiet_NaN());
  ASSERT_OK_AND_ASSIGN(
      const auto values,
      (*session)->Run({{"x", scores}, {"label", Tensor::Of<int64_t>(Shape{1, 2}, {0, 1})}}, {"perplexity"}));
  EXPECT_TRUE(std::isinf(Finished(values[0]).at("")));
}

TEST(Perplexity, OfTextPresets_CountsNoPadding) {
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("tiny_transformer", {.metrics = {"accuracy", "perplexity"}}));
  EXPECT_THAT(model.metrics, ElementsAre(Pair("accuracy", "accuracy"), Pair("perplexity", "perplexity")));
  EXPECT_FALSE(Preset("tiny_transformer", {.metrics = {"top_5"}}).ok());
  auto session = Session::Create(model.graph.Clone());
  ASSERT_OK(session);
  ASSERT_OK((*session)->Run({}, {}, {model.init_target}));
  Tensor tokens(DType::kInt64, Shape{2, 80}), labels(DType::kInt64, Shape{2, 80});
  for (size_t i = 0; i < 30; ++i) labels.flat<int64_t>()[i] = static_cast<int64_t>(i % 7 + 1);
  ASSERT_OK_AND_ASSIGN(const auto values,
                       (*session)->Run({{"tokens", tokens}, {"label", labels}}, {"perplexity", "loss"}));
  EXPECT_EQ(values[0].flat<float>()[2], 30);
  EXPECT_NEAR(Finished(values[0]).at("_loss"), values[1].flat<float>()[0], 1e-4);
}

}  // namespace
}  // namespace rivulet
