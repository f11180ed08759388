// Metrics by name, against scikit-learn's values of the same scores (version 1.7; average="macro", multi_class="ovr").
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "engine/models/metrics/metric.h"
#include "engine/models/objectives/objective.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;

// Metrics over batches of these rows: means of batches weighed by their rows, and sums of counts, finished.
StatusOr<std::map<std::string, double>> MetricsOf(TargetKind kind, const std::vector<std::string>& names,
                                                  int64_t classes,
                                                  const std::vector<std::pair<Tensor, Tensor>>& batches) {
  std::map<std::string, std::vector<double>> sums;
  double rows = 0;
  for (const auto& [scores, target] : batches) {
    Graph graph;
    const Scope scope(graph);
    const ScoredTargets targets = {scope.Placeholder("scores", DType::kFloat32, scores.shape()),
                                   scope.Placeholder("target", target.dtype(), target.shape()), classes};
    RIVULET_ASSIGN_OR_RETURN(const auto metrics, AddMetrics(scope, kind, targets, names));
    std::vector<std::string> fetches;
    for (const auto& [name, tensor] : metrics) fetches.push_back(tensor);
    RIVULET_ASSIGN_OR_RETURN(const auto values,
                             testing::RunGraph(graph, {{"scores", scores}, {"target", target}}, fetches));
    const auto of_batch = static_cast<double>(scores.shape().dim(0));
    rows += of_batch;
    for (size_t i = 0; i < metrics.size(); ++i) {
      const auto flat = values[i].flat<float>();
      std::vector<double>& sum = sums[metrics[i].first];
      sum.resize(flat.size());
      const double weight = FinishOf(metrics[i].first) == nullptr ? of_batch : 1;
      for (size_t k = 0; k < flat.size(); ++k) sum[k] += weight * static_cast<double>(flat[k]);
    }
  }
  std::map<std::string, double> told;
  for (const auto& [name, sum] : sums) {
    const FinishFunction finish = FinishOf(name);
    if (finish == nullptr) {
      told[name] = sum[0] / rows;
    } else {
      for (const auto& [suffix, value] : finish(sum)) told[name + suffix] = value;
    }
  }
  return told;
}

const Tensor kScores = Tensor::Of<float>({6, 3}, {0.2f, 1.9f, -0.4f, 2.5f, 0.1f, 0.3f, 0, 0.6f, 1.1f, 1.2f, -0.7f, 0.9f,
                                                  -0.3f, 0.4f, 2.2f, 0.8f, 1.3f, -1.5f});
const Tensor kClasses = Tensor::Of<int64_t>({6}, {1, 0, 2, 2, 1, 0});

TEST(Metrics, OfThreeClasses_AreScikitLearns) {
  ASSERT_OK_AND_ASSIGN(
      const auto told,
      MetricsOf(TargetKind::kClass, {"accuracy", "top_1", "precision", "recall", "f1", "auc", "average_precision"}, 3,
                {{kScores, kClasses}}));
  EXPECT_DOUBLE_EQ(told.at("accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(told.at("top_1"), 0.5);
  EXPECT_DOUBLE_EQ(told.at("precision"), 0.5);
  EXPECT_DOUBLE_EQ(told.at("recall"), 0.5);
  EXPECT_DOUBLE_EQ(told.at("f1"), 0.5);
  EXPECT_NEAR(told.at("auc"), 0.7916666666666666, told.at("auc_bound") + 1e-12);
  EXPECT_NEAR(told.at("average_precision"), 0.7222222222222222, told.at("average_precision_bound") + 1e-12);
  EXPECT_LT(told.at("auc_bound"), 0.1);
}

TEST(Metrics, OfTwoClasses_AreScikitLearns) {
  const std::vector<float> odds = {0.1f, -1.3f, 2.2f, 0.7f, -0.4f, 1.6f, -2.5f, 0.7f};
  Tensor scores(DType::kFloat32, Shape{8, 2});
  for (size_t i = 0; i < odds.size(); ++i) {
    scores.flat<float>()[2 * i] = 0.25f;
    scores.flat<float>()[2 * i + 1] = 0.25f + odds[i];
  }
  const Tensor classes = Tensor::Of<int64_t>({8}, {0, 0, 1, 1, 1, 0, 0, 0});
  ASSERT_OK_AND_ASSIGN(
      const auto told,
      MetricsOf(TargetKind::kClass, {"auc", "average_precision", "precision", "recall", "f1"}, 2, {{scores, classes}}));
  // The two scores of 0.7 are equal for scikit-learn too, and every other bin holds one example.
  EXPECT_NEAR(told.at("auc"), 0.7, 1e-12);
  EXPECT_NEAR(told.at("auc_bound"), 0.5 / 15, 1e-12);
  EXPECT_NEAR(told.at("average_precision"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(told.at("precision"), 0.5333333333333333, 1e-12);
  EXPECT_NEAR(told.at("recall"), 0.5333333333333333, 1e-12);
  EXPECT_NEAR(told.at("f1"), 0.5, 1e-12);
}

TEST(Metrics, OfLabels_AreScikitLearns) {
  const Tensor scores = Tensor::Of<float>({5, 2}, {0.3f, -0.2f, -0.8f, 1.1f, 1.4f, 0.6f, 0.5f, -1.7f, -0.1f, 0.9f});
  const Tensor labels = Tensor::Of<int64_t>({5, 2}, {1, 0, 0, 1, 1, 1, 0, 0, 1, 0});
  ASSERT_OK_AND_ASSIGN(const auto told,
                       MetricsOf(TargetKind::kLabels, {"exact_match", "auc", "average_precision", "f1", "accuracy"}, 2,
                                 {{scores, labels}}));
  EXPECT_NEAR(told.at("auc"), 0.75, told.at("auc_bound") + 1e-12);
  EXPECT_NEAR(told.at("average_precision"), 0.8194444444444444, told.at("average_precision_bound") + 1e-12);
  EXPECT_NEAR(told.at("f1"), 0.7333333333333334, 1e-12);
  EXPECT_NEAR(told.at("accuracy"), 7.0 / 10, 1e-7);
  EXPECT_NEAR(told.at("exact_match"), 3.0 / 5, 1e-7);
}

// However rows are divided into batches, the counts are the same, and so are the metrics.
TEST(Metrics, Counts_AddUpOverBatches) {
  const std::vector<std::string> names = {"auc", "average_precision", "precision", "recall", "f1"};
  const auto rows = [](int64_t first, int64_t count) {
    Tensor scores(DType::kFloat32, Shape{count, 3}), classes(DType::kInt64, Shape{count});
    std::copy_n(kScores.flat<float>().begin() + 3 * first, 3 * count, scores.flat<float>().begin());
    std::copy_n(kClasses.flat<int64_t>().begin() + first, count, classes.flat<int64_t>().begin());
    return std::pair(std::move(scores), std::move(classes));
  };
  std::vector<std::pair<Tensor, Tensor>> whole, parts;
  whole.push_back(rows(0, 6));
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3}, {4, 2}})
    parts.push_back(rows(first, count));
  ASSERT_OK_AND_ASSIGN(const auto once, MetricsOf(TargetKind::kClass, names, 3, whole));
  ASSERT_OK_AND_ASSIGN(const auto added, MetricsOf(TargetKind::kClass, names, 3, parts));
  EXPECT_EQ(once, added);
}

// Against the definition over all pairs, and over all thresholds, of many scores that share bins.
TEST(Metrics, Bound_HoldsOfScoresThatShareBins) {
  constexpr int64_t kRows = 600;
  Tensor scores(DType::kFloat32, Shape{kRows, 2}), classes(DType::kInt64, Shape{kRows});
  std::vector<double> odds(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t is = (i * 7919 % 13) < 5 ? 1 : 0;
    classes.flat<int64_t>()[at] = is;
    scores.flat<float>()[2 * at] = 0;
    scores.flat<float>()[2 * at + 1] =
        static_cast<float>(i * 104729 % 1009) / 300.0f - 1.7f + 0.6f * static_cast<float>(is);
    odds[at] = scores.flat<float>()[2 * at + 1];
  }
  double right = 0, pairs = 0, precision = 0, positives = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    if (classes.flat<int64_t>()[static_cast<size_t>(i)] == 0) continue;
    double above = 0, positives_above = 0;
    for (int64_t k = 0; k < kRows; ++k) {
      const double own = odds[static_cast<size_t>(i)], other = odds[static_cast<size_t>(k)];
      const bool positive = classes.flat<int64_t>()[static_cast<size_t>(k)] == 1;
      if (other >= own) ++above, positives_above += positive ? 1 : 0;
      if (positive) continue;
      ++pairs;
      right += own > other ? 1 : own == other ? 0.5 : 0;
    }
    precision += positives_above / above;
    ++positives;
  }
  ASSERT_OK_AND_ASSIGN(const auto told,
                       MetricsOf(TargetKind::kClass, {"auc", "average_precision"}, 2, {{scores, classes}}));
  EXPECT_GT(told.at("auc_bound"), 0);
  EXPECT_LT(told.at("auc_bound"), 0.02);
  EXPECT_NEAR(told.at("auc"), right / pairs, told.at("auc_bound"));
  EXPECT_NEAR(told.at("average_precision"), precision / positives, told.at("average_precision_bound"));
}

// Fewer than k classes are higher: the second best is among two, and an equal one is no higher.
TEST(Metrics, Top_IsHowOftenTheClassIsAmongTheBest) {
  const Tensor scores = Tensor::Of<float>({3, 4}, {4, 3, 2, 1, 1, 1, 5, 6, 0, 9, 8, 7});
  const Tensor classes = Tensor::Of<int64_t>({3}, {1, 0, 0});
  ASSERT_OK_AND_ASSIGN(const auto told,
                       MetricsOf(TargetKind::kClass, {"top_1", "top_2", "top_3"}, 4, {{scores, classes}}));
  EXPECT_NEAR(told.at("top_1"), 0, 1e-7);
  EXPECT_NEAR(told.at("top_2"), 1.0 / 3, 1e-7);
  EXPECT_NEAR(told.at("top_3"), 2.0 / 3, 1e-7);
}

TEST(Metrics, OneKindOfExamplesAlone_SaysNothingOfTheirOrder) {
  const Tensor scores = Tensor::Of<float>({2, 2}, {0, 1, 0, 2}), classes = Tensor::Of<int64_t>({2}, {1, 1});
  ASSERT_OK_AND_ASSIGN(const auto told,
                       MetricsOf(TargetKind::kClass, {"auc", "average_precision"}, 2, {{scores, classes}}));
  EXPECT_TRUE(told.empty());
}

TEST(Metrics, WithoutNames_AreTheUsualOnes) {
  const auto names = [](TargetKind kind, const Tensor& scores, const Tensor& target) {
    std::vector<std::string> told;
    for (const auto& [name, value] : *MetricsOf(kind, {}, 2, {{scores, target}})) told.push_back(name);
    return told;
  };
  const Tensor scores = Tensor::Of<float>({1, 2}, {1, 2});
  EXPECT_THAT(names(TargetKind::kClass, scores, Tensor::Of<int64_t>({1}, {0})), ElementsAre("accuracy"));
  EXPECT_THAT(names(TargetKind::kLabels, scores, Tensor::Of<int64_t>({1, 2}, {0, 1})),
              ElementsAre("accuracy", "exact_match"));
  EXPECT_THAT(names(TargetKind::kNumbers, scores, Tensor::Of<float>({1, 2}, {0, 1})), ElementsAre("mae", "mse"));
}

TEST(Metrics, UnknownTwiceOrOfAnotherTarget_IsRefused) {
  const auto refusal = [](TargetKind kind, const std::vector<std::string>& names) {
    return ErrorOf(MetricsOf(kind, names, 3, {{kScores, kClasses}}));
  };
  EXPECT_THAT(refusal(TargetKind::kClass, {"acuracy"}), HasSubstr("Did you mean 'accuracy'?"));
  EXPECT_THAT(refusal(TargetKind::kClass, {"top_x"}), HasSubstr("there is no metric 'top_x'"));
  EXPECT_THAT(refusal(TargetKind::kClass, {"top_3"}), HasSubstr("there are 3 classes, and the best 3 of them are all"));
  EXPECT_THAT(refusal(TargetKind::kClass, {"mae"}), HasSubstr("for the target \"class\""));
  EXPECT_THAT(refusal(TargetKind::kClass, {"f1", "f1"}), HasSubstr("asked for twice"));
}

}  // namespace
}  // namespace rivulet
