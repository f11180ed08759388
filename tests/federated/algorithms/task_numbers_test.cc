// Numbers that go with tasks: a mu of FedProx that moves, and the weights of agnostic federated learning. Three rounds
// are what NumPy computes in float64 (reference/local_training.py); the rules by hand; their limits.
#include <cmath>

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;

std::unique_ptr<const NumberRule> Rule(const PieceSpec& piece) {
  auto rule = NumberRule::Create(piece);
  EXPECT_OK(rule);
  return *std::move(rule);
}

// The mu of each version whose one client tells these losses.
std::vector<double> MusOf(const NumberRule& rule, const std::vector<double>& losses) {
  ServerNumbers numbers = rule.First();
  std::vector<double> mus;
  for (const double loss : losses) {
    numbers = rule.Next(numbers, std::vector<ReportedLoss>{{"t", "a", 3, loss}}, {});
    mus.push_back(rule.Of(numbers, "whoever").at("mu"));
  }
  return mus;
}

TEST(TaskNumbers, MuStep_IsHowFarMuMoves) {
  const auto rule = Rule({"adaptive_mu", {{"first", 0.5}, {"step", 0.25}, {"falls", int64_t{2}}}});
  EXPECT_EQ(rule->Of(rule->First(), "a").at("mu"), 0.5);
  // The first says nothing; a rise; two falls; one, which counts again with the next; and it is never below 0.
  EXPECT_THAT(MusOf(*rule, {2, 3, 2.5, 2, 1.5, 1.5, 1, 0.9, 0.8, 0.7, 0.6, 0.5}),
              ElementsAre(0.5, 0.75, 0.75, 0.5, 0.5, 0.5, 0.25, 0.25, 0, 0, 0, 0));
  EXPECT_THAT(MusOf(*rule, {2, std::nan(""), 3}), ElementsAre(0.5, 0.5, 0.75)) << "no number says nothing";
}

TEST(TaskNumbers, MuFalls_IsHowLongTheLossMustFall) {
  const auto of = [](int64_t falls) {
    return MusOf(*Rule({"adaptive_mu", {{"first", 1.0}, {"step", 0.5}, {"falls", falls}}}), {4, 3, 2, 1});
  };
  EXPECT_THAT(of(1), ElementsAre(1, 0.5, 0, 0));
  EXPECT_THAT(of(3), ElementsAre(1, 1, 1, 0.5));
}

TEST(TaskNumbers, MeanLoss_IsByExamples) {
  const auto rule = Rule({"adaptive_mu", {{"step", 1.0}}});
  const ServerNumbers numbers =
      rule->Next(rule->First(), std::vector<ReportedLoss>{{"t1", "a", 1, 4}, {"t2", "b", 3, 2}}, {});
  EXPECT_EQ(numbers.all.at("loss"), 2.5);
}

// The weights of `n` clients called "0", "1", … after one version in which these told these losses.
std::vector<double> WeightsAfter(const NumberRule& rule, ServerNumbers& numbers,
                                 const std::vector<std::pair<int, double>>& losses, int n) {
  std::vector<ReportedLoss> told;
  for (const auto& [client, loss] : losses) {
    told.push_back({fmt::format("t{}", client), fmt::format("{}", client), 1, loss});
  }
  numbers = rule.Next(numbers, told, {});
  std::vector<double> weights;
  for (int i = 0; i < n; ++i) weights.push_back(rule.Of(numbers, fmt::format("{}", i)).at("weight"));
  return weights;
}

PieceSpec Agnostic(double learning_rate, double least, bool memory) {
  return {"agnostic", {{"learning_rate", learning_rate}, {"least", least}, {"memory", memory}}};
}

// In units of 1 / n: (1 + 0.1 · 3 · (1, 2, 6)) less their mean above 1, (0.4, 0.7, 1.9).
TEST(TaskNumbers, WeightsLearningRate_RaisesThoseOfLargeLoss) {
  ServerNumbers numbers;
  const std::vector<std::pair<int, double>> losses = {{0, 1}, {1, 2}, {2, 6}};
  EXPECT_THAT(WeightsAfter(*Rule(Agnostic(0.1, 0.01, true)), numbers, losses, 4),
              ElementsAre(DoubleNear(0.4, 1e-12), DoubleNear(0.7, 1e-12), DoubleNear(1.9, 1e-12), 1));
  numbers = {};
  EXPECT_THAT(WeightsAfter(*Rule(Agnostic(0, 0.01, true)), numbers, losses, 3), ElementsAre(1, 1, 1));
}

// Whose weight would be less has that, and the others share what is left: with everything at least 1 all have 1.
TEST(TaskNumbers, LeastWeight_IsWhatNoClientCountsLessThan) {
  for (const double least : {0.25, 1.0}) {
    ServerNumbers numbers;
    const double most = least == 1 ? 1 : 2.5;
    EXPECT_THAT(WeightsAfter(*Rule(Agnostic(10, least, true)), numbers, {{0, 1}, {1, 2}, {2, 6}}, 3),
                ElementsAre(least, least, DoubleNear(most, 1e-12)));
  }
}

TEST(TaskNumbers, Memory_CountsWhoWasNotDrawn) {
  const auto second = [](bool memory) {
    const auto rule = Rule(Agnostic(0.1, 0.01, memory));
    ServerNumbers numbers;
    WeightsAfter(*rule, numbers, {{0, 2}, {1, 2}}, 2);
    return WeightsAfter(*rule, numbers, {{1, 1}}, 2);
  };
  EXPECT_THAT(second(true), ElementsAre(DoubleNear(1.1, 1e-12), DoubleNear(0.9, 1e-12)));
  EXPECT_THAT(second(false), ElementsAre(DoubleNear(0.9, 1e-12), DoubleNear(1.1, 1e-12)));
}

TEST(TaskNumbers, ThreeRounds_AreNumPysInDouble) {
  struct Case {
    const char* algorithm;
    SettingValues options;
    const char* reference;
  };
  for (const Case& of :
       {Case{"agnostic", {{"weights_learning_rate", 0.2}, {"least_weight", 0.1}}, "agnostic.txt"},
        Case{"fedprox", {{"mu", 0.3}, {"mu_step", 0.2}, {"mu_falls", int64_t{1}}}, "adaptive_mu.txt"}}) {
    SCOPED_TRACE(of.reference);
    Scenario scenario = PixelScenario(of.algorithm);
    scenario.algorithm.settings = of.options;
    scenario.server.learning_rate = 0.75;
    scenario.client.epochs = 2;
    ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(scenario, 3));
    testing::ExpectReference(of.reference, testing::WeightsOfModel(*run.server.model));
  }
}

// A mu that never moves is the constant.
TEST(TaskNumbers, MuThatIsToldAndStays_IsFedProxToTheBit) {
  Scenario constant = PixelScenario("fedprox");
  constant.algorithm.settings["mu"] = 0.3;
  ASSERT_OK_AND_ASSIGN(const PixelRounds without, RunPixels(constant, 3));
  EXPECT_TRUE(without.plan->flat_names().numbers.empty());
  Scenario told = constant;
  told.algorithm.settings["mu_step"] = 1e-30;
  ASSERT_OK_AND_ASSIGN(const PixelRounds with, RunPixels(told, 3));
  EXPECT_THAT(with.plan->flat_names().numbers, ElementsAre("mu"));
  EXPECT_EQ(with.versions, without.versions);
  EXPECT_EQ(with.declared.at(2).at("mu"), 0.3);
}

TEST(TaskNumbers, TaskWithoutThem_IsRefusedByName) {
  Scenario scenario = PixelScenario("agnostic");
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, testing::FourPixels()));
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(0, 5)),
                                 std::nullopt, decoder);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  const auto base = testing::FourPixelsBase(*plan);
  Task task;
  const LaneTask lane{&task, "a", base.get(), &examples};
  ASSERT_OK_AND_ASSIGN(const std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  EXPECT_THAT(ErrorOf(results[0].status), HasSubstr("the task has no number 'weight'"));
  EXPECT_THAT(ErrorOf(NumberRule::For(std::vector<std::string>{"mu"}, {"agnostic"})), HasSubstr("changes [weight]"));
}

}  // namespace
}  // namespace rivulet
