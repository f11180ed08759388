// Objectives and metrics by the kind of target: values that a reader checks by hand.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "engine/gradients/gradients.h"
#include "engine/models/metrics/metric.h"
#include "engine/models/objectives/objective.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

// The mean loss as "loss", its metrics, and the gradient by the scores after them.
std::map<std::string, std::vector<float>> ValuesOf(TargetKind kind, const std::string& objective, const Tensor& scores,
                                                   const Tensor& target, const SettingValues& settings = {},
                                                   int64_t classes = 2) {
  Graph graph;
  const Scope scope(graph);
  const ScoredTargets targets = {scope.Placeholder("scores", DType::kFloat32, scores.shape()),
                                 scope.Placeholder("target", target.dtype(), target.shape()), classes};
  const auto found = FindObjective(kind, objective, settings);
  EXPECT_OK(found);
  const Output loss = MeanOf(scope, (*found)(scope, targets), "loss");
  std::vector<std::string> names = {"loss"}, fetches = {"loss"};
  const auto metrics = AddMetrics(scope, kind, targets);
  EXPECT_OK(metrics);
  for (const auto& [name, tensor] : *metrics) {
    names.push_back(name);
    fetches.push_back(tensor);
  }
  EXPECT_OK(scope.status());
  const auto gradients = ComputeGradients(graph, loss, std::vector{targets.scores});
  EXPECT_OK(gradients);
  names.emplace_back("gradient");
  fetches.push_back((*gradients)[0].name());
  const auto values = testing::RunGraph(graph, {{"scores", scores}, {"target", target}}, fetches);
  EXPECT_OK(values);
  std::map<std::string, std::vector<float>> told;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto flat = (*values)[i].flat<float>();
    told[names[i]] = {flat.begin(), flat.end()};
  }
  return told;
}

TEST(Objectives, Numbers_AreComparedOneByOne) {
  const Tensor said = Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), right = Tensor::Of<float>({2, 2}, {1, 4, 3.5, 1});
  const auto mse = ValuesOf(TargetKind::kNumbers, "mse", said, right);
  EXPECT_THAT(mse.at("loss"), ElementsAre(FloatEq((4 + 0.25f + 9) / 4)));
  EXPECT_THAT(mse.at("mse"), ElementsAre(FloatEq((4 + 0.25f + 9) / 4)));
  EXPECT_THAT(mse.at("mae"), ElementsAre(FloatEq((2 + 0.5f + 3) / 4)));
  EXPECT_THAT(mse.at("gradient"), ElementsAre(0, -1, -0.25f, 1.5f));  // 2 e / 4
  const auto mae = ValuesOf(TargetKind::kNumbers, "mae", said, right);
  EXPECT_THAT(mae.at("loss"), ElementsAre(FloatEq((2 + 0.5f + 3) / 4)));
  EXPECT_THAT(mae.at("gradient"), ElementsAre(0, -0.25f, -0.25f, 0.25f));
  const auto huber = ValuesOf(TargetKind::kNumbers, "huber", said, right);
  EXPECT_THAT(huber.at("loss"), ElementsAre(FloatEq((1.5f + 0.125f + 2.5f) / 4)));
  EXPECT_THAT(huber.at("mse"), ElementsAre(FloatEq((4 + 0.25f + 9) / 4)));
}

// TensorFlow's numbers for scores of exactly 0: sigmoid(0) - 1 for the class, sigmoid(0) for the other.
TEST(Objectives, ClassByItself_HasTheGradientOfASigmoidAtZeroToo) {
  const auto values = ValuesOf(TargetKind::kClass, "sigmoid_cross_entropy", Tensor::Of<float>({2, 2}, {0, 0, 2, -1}),
                               Tensor::Of<int64_t>({2}, {1, 0}));
  const auto yes = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double loss = (2 * std::log(2.0) - std::log(yes(2)) - std::log(1 - yes(-1))) / 4;
  EXPECT_THAT(values.at("loss"), ElementsAre(FloatNear(static_cast<float>(loss), 1e-6f)));
  EXPECT_FLOAT_EQ(values.at("gradient")[0], 0.5f / 4);
  EXPECT_FLOAT_EQ(values.at("gradient")[1], -0.5f / 4);
  EXPECT_NEAR(values.at("gradient")[2], (yes(2) - 1) / 4, 1e-7);
  EXPECT_NEAR(values.at("gradient")[3], yes(-1) / 4, 1e-7);
}

// At a score of 0, where a model of zeros begins, the gradient is sigmoid(0) - target.
TEST(Objectives, Labels_AreDecidedEachByItself) {
  const Tensor scores = Tensor::Of<float>({3, 2}, {0, 2, -1, 3, 0.5f, -4}),
               labels = Tensor::Of<int64_t>({3, 2}, {1, 1, 0, 1, 0, 0});
  const auto values = ValuesOf(TargetKind::kLabels, "sigmoid_cross_entropy", scores, labels);
  const auto yes = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double loss = -(std::log(yes(0)) + std::log(yes(2)) + std::log(1 - yes(-1)) + std::log(yes(3)) +
                        std::log(1 - yes(0.5)) + std::log(1 - yes(-4))) /
                      6;
  EXPECT_THAT(values.at("loss"), ElementsAre(FloatNear(static_cast<float>(loss), 1e-6f)));
  EXPECT_THAT(values.at("accuracy"), ElementsAre(FloatEq(4.0f / 6)));     // wrong at 0, which says no, and at 0.5
  EXPECT_THAT(values.at("exact_match"), ElementsAre(FloatEq(1.0f / 3)));  // the second example
  EXPECT_FLOAT_EQ(values.at("gradient")[0], -0.5f / 6);
  EXPECT_NEAR(values.at("gradient")[1], (yes(2) - 1) / 6, 1e-7);
}

// Loss and gradient of PyTorch 2 in float64, of the mean over examples: cross_entropy(…, reduction="none").mean() with
// weights divided by their mean, binary_cross_entropy_with_logits, huber_loss, and focal losses as (1 − e^−CE)^γ · CE,
// of labels torchvision's sigmoid_focal_loss.
TEST(Objectives, Options_AreThoseOfPyTorch) {
  const Tensor scores = Tensor::Of<float>({3, 3}, {0.5f, -1.25f, 2, 1.5f, 0.25f, -0.75f, -2, 3, 0.125f});
  const Tensor classes = Tensor::Of<int64_t>({3}, {2, 1, 1});
  const Tensor labelled = Tensor::Of<float>({3, 2}, {0, 2, -1, 3, 0.5f, -4}),
               labels = Tensor::Of<int64_t>({3, 2}, {1, 1, 0, 1, 0, 0});
  const Tensor said = Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), right = Tensor::Of<float>({2, 2}, {1, 4, 3.5, 1});
  const SettingValue weights = std::vector<int64_t>{1, 5, 3};
  struct Case {
    TargetKind kind;
    const char* objective;
    SettingValues settings;
    float loss;
    std::vector<float> gradient;
  };
  const std::vector<Case> cases = {
      {TargetKind::kClass,
       "sparse_softmax_cross_entropy",
       {{"label_smoothing", 0.1}},
       0.762344879f,
       {0.0478289496f, -0.000868864336f, -0.0469600853f, 0.228369003f, -0.24249891f, 0.0141299072f, -0.0089985459f,
        0.0024213651f, 0.00657718081f}},
      {TargetKind::kClass,
       "sparse_softmax_cross_entropy",
       {{"class_weights", weights}},
       0.989714357f,
       {0.0589400607f, 0.0102422468f, -0.0691823075f, 0.399133523f, -0.441201887f, 0.0420683638f, 0.00352094201f,
        -0.0330014285f, 0.0294804865f}},
      {TargetKind::kClass,
       "sparse_softmax_cross_entropy",
       {{"class_weights", weights}, {"label_smoothing", 0.1}},
       1.07591259f,
       {0.055236357f, -0.00827627174f, -0.0469600853f, 0.379464478f, -0.408738996f, 0.0292745181f, -0.000323599372f,
        -0.0168665566f, 0.017190156f}},
      {TargetKind::kClass,
       "focal",
       {},
       0.335719852f,
       {0.00704893404f, 0.00122492107f, -0.0082738551f, 0.274797193f, -0.303760604f, 0.028963411f, 2.19117509e-05f,
        -0.000205376595f, 0.000183464844f}},
      {TargetKind::kClass,
       "focal",
       {{"focal_gamma", 1.5}, {"class_weights", weights}},
       0.62931437f,
       {0.0129977405f, 0.00225866863f, -0.0152564092f, 0.456068634f, -0.504137914f, 0.0480692803f, 0.00012512285f,
        -0.00117276365f, 0.0010476408f}},
      {TargetKind::kLabels,
       "sigmoid_cross_entropy",
       {{"positive_weight", 3.5}},
       0.72430125f,
       {-0.291666667f, -0.0695350378f, 0.0448235702f, -0.0276650927f, 0.103743222f, 0.00299770166f}},
      {TargetKind::kLabels,
       "focal",
       {{"focal_alpha", 0.25}},
       0.0573094263f,
       {-0.0124286165f, -0.000202955841f, 0.00657264125f, -1.31196603e-05f, 0.0657689777f, 2.1688164e-06f}},
      {TargetKind::kLabels,
       "focal",
       {{"focal_gamma", 1.5}},
       0.128815088f,
       {-0.0600958495f, -0.00196792764f, 0.01423683f, -0.000201141719f, 0.0960984879f, 1.79793469e-05f}},
      {TargetKind::kNumbers, "huber", {{"huber_delta", 0.5}}, 0.59375f, {0, -0.125f, -0.125f, 0.125f}},
  };
  for (const Case& of : cases) {
    SCOPED_TRACE(of.objective);
    const bool one = of.kind == TargetKind::kClass, numbers = of.kind == TargetKind::kNumbers;
    const auto values = ValuesOf(of.kind, of.objective,
                                 one       ? scores
                                 : numbers ? said
                                           : labelled,
                                 one       ? classes
                                 : numbers ? right
                                           : labels,
                                 of.settings, 3);
    EXPECT_THAT(values.at("loss"), ElementsAre(FloatNear(of.loss, 2e-7f)));
    ASSERT_EQ(values.at("gradient").size(), of.gradient.size());
    for (size_t i = 0; i < of.gradient.size(); ++i) EXPECT_NEAR(values.at("gradient")[i], of.gradient[i], 1e-7) << i;
  }
}

// Scores that are sure of the right class have no gradient and a finite one, whatever the exponent.
TEST(Objectives, FocalLossOfSureScores_IsFinite) {
  for (const double gamma : {0.5, 1.0, 2.0}) {
    const auto values = ValuesOf(TargetKind::kClass, "focal", Tensor::Of<float>({2, 2}, {200, -200, -200, 200}),
                                 Tensor::Of<int64_t>({2}, {0, 0}), {{"focal_gamma", gamma}});
    EXPECT_THAT(values.at("loss"), ElementsAre(FloatNear(200, 1e-3f)));
    for (const float value : values.at("gradient")) EXPECT_TRUE(std::isfinite(value)) << gamma;
  }
}

TEST(Objectives, OptionsThatDoNotFit_AreRefused) {
  const auto refusal = [](TargetKind kind, const char* objective, const SettingValues& settings, const Tensor& target) {
    Graph graph;
    const Scope scope(graph);
    const ScoredTargets targets = {scope.Placeholder("scores", DType::kFloat32, {2, 3}),
                                   scope.Placeholder("target", target.dtype(), target.shape()), 3};
    const auto found = FindObjective(kind, objective, settings);
    if (!found.ok()) return std::string(Message(found.status()));
    (*found)(scope, targets);
    return std::string(Message(scope.status()));
  };
  const Tensor classes = Tensor::Of<int64_t>({2}, {0, 2}), labels = Tensor::Of<int64_t>({2, 3}, {0, 1, 0, 1, 0, 1});
  EXPECT_THAT(refusal(TargetKind::kClass, "focal", {{"class_weights", std::vector<int64_t>{1, 2}}}, classes),
              HasSubstr("model.class_weights has 2 weights, whose sum is 3, and there are 3 classes"));
  EXPECT_THAT(refusal(TargetKind::kClass, "focal", {{"class_weights", std::vector<int64_t>{0, 0, 0}}}, classes),
              HasSubstr("not all 0"));
  EXPECT_THAT(refusal(TargetKind::kLabels, "focal", {{"class_weights", std::vector<int64_t>{1, 2, 3}}}, labels),
              HasSubstr("set focal_alpha"));
  EXPECT_THAT(refusal(TargetKind::kClass, "sparse_softmax_cross_entropy", {{"label_smoothing", 1.5}}, classes),
              HasSubstr("label_smoothing"));
  EXPECT_THAT(refusal(TargetKind::kClass, "mse", {{"label_smoothing", 0.5}}, classes), HasSubstr("label_smoothing"));
}

TEST(Objectives, OfAnotherTarget_AreRefused) {
  EXPECT_THAT(testing::ErrorOf(FindObjective(TargetKind::kNumbers, "msee")),
              HasSubstr("there is no objective 'msee' for the target \"numbers\". Did you mean 'mse'?"));
  EXPECT_THAT(testing::ErrorOf(FindObjective(TargetKind::kLabels, "mae")), HasSubstr("Objectives for it are sigmoid"));
  EXPECT_THAT(testing::ErrorOf(TargetKindFromName("number")),
              HasSubstr("there are no targets 'number'. Did you mean 'numbers'?"));
}

}  // namespace
}  // namespace rivulet
