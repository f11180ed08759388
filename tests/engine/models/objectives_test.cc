// Objectives and metrics by the kind of target: values that a reader checks by hand.
#include "engine/models/objectives.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "engine/gradients/gradients.h"
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
                                                   const Tensor& target) {
  Graph graph;
  const Scope scope(graph);
  const ScoredTargets targets = {scope.Placeholder("scores", DType::kFloat32, scores.shape()),
                                 scope.Placeholder("target", target.dtype(), target.shape()), 2};
  const auto found = FindObjective(kind, objective);
  EXPECT_OK(found);
  const Output loss = MeanOf(scope, (*found)(scope, targets), "loss");
  std::vector<std::string> names = {"loss"}, fetches = {"loss"};
  for (const auto& [name, tensor] : AddMetrics(scope, kind, targets)) {
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

TEST(Objectives, OfAnotherTarget_AreRefused) {
  EXPECT_THAT(testing::ErrorOf(FindObjective(TargetKind::kNumbers, "msee")),
              HasSubstr("there is no objective 'msee' for the target \"numbers\". Did you mean 'mse'?"));
  EXPECT_THAT(testing::ErrorOf(FindObjective(TargetKind::kLabels, "mae")), HasSubstr("Objectives for it are sigmoid"));
  EXPECT_THAT(testing::ErrorOf(TargetKindFromName("number")),
              HasSubstr("there are no targets 'number'. Did you mean 'numbers'?"));
}

}  // namespace
}  // namespace rivulet
