// Every registered algorithm: its composition, its reference page, and a test for each of its options.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/settings/setting_tables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// The test of this program that sees the effect of an option: {"fedprox.mu", "FedProx.Mu_PullsTowardsTheBase"}. An
// option does something or does not exist.
const std::map<std::string, std::string>& OptionTests() {
  static const auto* const tests = new std::map<std::string, std::string>{
      {"agnostic.least_weight", "TaskNumbers.LeastWeight_IsWhatNoClientCountsLessThan"},
      {"agnostic.memory", "TaskNumbers.Memory_CountsWhoWasNotDrawn"},
      {"agnostic.weights_learning_rate", "TaskNumbers.WeightsLearningRate_RaisesThoseOfLargeLoss"},
      {"apfl.alpha", "LocalTraining.Alpha_IsHowMuchOfAMixtureIsItsClients"},
      {"apfl.alpha_learning_rate", "LocalTraining.AlphaLearningRate_IsHowFarAClientsShareMoves"},
      {"centered_clipping.iterations", "RobustRules.Iterations_GoFurtherFromTheMean"},
      {"centered_clipping.tau", "RobustRules.Tau_IsHowFarOneMovesTheCentre"},
      {"ditto.lambda", "Ditto.Lambda_HoldsThePersonalModelToTheShared"},
      {"dp_fedavg.bands", "DpFedAvg.Bands_CorrelateTheNoiseOfVersions"},
      {"dp_fedavg.clip_count_stddev", "DpFedAvg.ClipCountStddev_IsPaidForByTheUpdates"},
      {"dp_fedavg.clip_learning_rate", "DpFedAvg.ClipQuantileAndLearningRate_SayWhereTheClipGoesAndHowFast"},
      {"dp_fedavg.clip_quantile", "DpFedAvg.ClipQuantileAndLearningRate_SayWhereTheClipGoesAndHowFast"},
      {"dp_fedavg.noise", "DpFedAvg.DistributedNoise_OfTheSmallestSumIsWhatIsPromised"},
      {"dp_fedavg.noise_multiplier", "DpFedAvg.NoiseMultiplier_IsTheDeviationOverWhatOneClientCanDo"},
      {"dp_fedavg.noise_source", "DpFedAvg.NoiseSource_SeededIsOfSeedAndVersionAndElseItIsSecret"},
      {"external.function", "ExternalRule.Function_IsARecordAlone"},
      {"fedadagrad.beta1", "ServerRules.Beta1_KeepsThePaceOfTheRoundsBefore"},
      {"fedadagrad.initial_accumulator", "ServerRules.InitialAccumulator_SlowsTheFirstRounds"},
      {"fedadagrad.tau", "ServerRules.Tau_BoundsHowMuchSmallDeltasAreRaised"},
      {"fedadam.beta1", "FedAdam.Beta1_KeepsThePaceOfTheRoundsBefore"},
      {"fedadam.beta2", "FedAdam.Beta2_RemembersHowLargeDeltasWere"},
      {"fedadam.initial_accumulator", "FedAdam.InitialAccumulator_SlowsTheFirstRounds"},
      {"fedadam.tau", "FedAdam.Tau_BoundsHowMuchSmallDeltasAreRaised"},
      {"fedasync.rho", "FedAsync.Rho_PullsTowardsTheBase"},
      {"fedavgm.beta", "FedAvgM.Beta_GoesOnInTheDirectionOfTheRoundsBefore"},
      {"feddyn.alpha", "LocalTraining.Alpha_HoldsClientsToTheModel"},
      {"fedexp.epsilon", "LocalTraining.Epsilon_HoldsTheStretchBack"},
      {"fedprox.mu", "FedProx.Mu_PullsTowardsTheBase"},
      {"fedprox.mu_falls", "TaskNumbers.MuFalls_IsHowLongTheLossMustFall"},
      {"fedprox.mu_step", "TaskNumbers.MuStep_IsHowFarMuMoves"},
      {"fedrep.head_epochs", "LocalTraining.HeadEpochs_AreHowLongAClientLearnsItsOwnLayers"},
      {"fedyogi.beta1", "ServerRules.Beta1_KeepsThePaceOfTheRoundsBefore"},
      {"fedyogi.beta2", "ServerRules.Beta2_RemembersHowLargeDeltasWere"},
      {"fedyogi.initial_accumulator", "ServerRules.InitialAccumulator_SlowsTheFirstRounds"},
      {"fedyogi.tau", "ServerRules.Tau_BoundsHowMuchSmallDeltasAreRaised"},
      {"geometric_median.iterations", "RobustRules.Iterations_GoFurtherFromTheMean"},
      {"geometric_median.smoothing", "RobustRules.Smoothing_MakesTheMedianAMean"},
      {"hypcluster.clusters", "Ifca.Clusters_AreHowManyModelsThereAre"},
      {"ifca.clusters", "Ifca.Clusters_AreHowManyModelsThereAre"},
      {"krum.byzantine", "RobustRules.Byzantine_IsHowManyAreNotCounted"},
      {"mime.beta", "LocalTraining.Beta_IsHowMuchOfTheMomentumStays"},
      {"mimelite.beta", "LocalTraining.Beta_IsHowMuchOfTheMomentumStays"},
      {"moon.mu", "Moon.Mu_TurnsRepresentationsToTheGlobalModels"},
      {"moon.temperature", "Moon.Temperature_IsHowHardTheyAreToldApart"},
      {"multi_krum.byzantine", "RobustRules.Byzantine_IsHowManyAreNotCounted"},
      {"norm_bound.bound", "RobustRules.Bound_IsTheLargestNormThatCounts"},
      {"per_fedavg.hessian_step", "LocalTraining.HessianStep_IsHowFarGradientsAreCompared"},
      {"per_fedavg.alpha", "LocalTraining.Alpha_IsHowFarPerFedAvgLooksAhead"},
      {"q_fedavg.reference", "WeighsByLoss.Reference_ChangesNoMeanAndIsWhatSumsHold"},
      {"q_fedavg.q", "LocalTraining.Q_MakesTheModelFairer"},
      {"term.reference", "WeighsByLoss.Reference_ChangesNoMeanAndIsWhatSumsHold"},
      {"term.t", "LocalTraining.T_MakesTheModelFairer"},
      {"trimmed_mean.trim", "TrimmedMean.Trim_LeavesOutSoManyAtEitherEnd"},
  };
  return *tests;
}

bool IsTest(const std::string& name) {
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k)
      if (fmt::format("{}.{}", suite.name(), suite.GetTestInfo(k)->name()) == name) return true;
  }
  return false;
}

TEST(AlgorithmCensus, EveryOption_HasATestThatSeesItsEffect) {
  size_t options = 0;
  for (const Algorithm* algorithm : Algorithms()) {
    for (const Setting& setting : algorithm->settings) {
      const std::string option = fmt::format("{}.{}", algorithm->name, setting.name);
      const auto test = OptionTests().find(option);
      ASSERT_NE(test, OptionTests().end()) << option << " has no test of its effect";
      EXPECT_TRUE(IsTest(test->second)) << test->second;
      EXPECT_FALSE(setting.doc.empty()) << option;
      EXPECT_FALSE(setting.example.empty()) << option;
      ++options;
    }
  }
  EXPECT_EQ(OptionTests().size(), options) << "tests of options that there are not";
  EXPECT_TRUE(IsTest("AlgorithmCensus.EveryOption_HasATestThatSeesItsEffect"));
  EXPECT_FALSE(IsTest("AlgorithmCensus.Nothing"));
}

TEST(AlgorithmCensus, EveryAlgorithm_ComposesASmallModel) {
  ASSERT_OK_AND_ASSIGN(
      const ModelLayout layout,
      ModelLayout::Create(std::vector<VariableSpec>{{"w", {DType::kFloat32, {7}}, Segment::kTrainable}}));
  ASSERT_OK_AND_ASSIGN(const ModelLayout personal, ModelLayout::Create(std::vector<VariableSpec>{
                                                       {"w", {DType::kFloat32, {7}}, Segment::kTrainable},
                                                       {"own", {DType::kFloat32, {2}}, Segment::kLocal}}));
  for (const Algorithm* algorithm : Algorithms()) {
    Scenario scenario;
    scenario.algorithm.name = algorithm->name;
    const std::set<std::string> keep_layers = {"fedbn", "fedper", "fedrep"};
    const bool wants_personal = keep_layers.contains(algorithm->name);
    scenario.server.clients_per_round = 3;
    scenario.data.partition.clients = 5;
    const bool refuses_clip = algorithm->name == "fedasync" || algorithm->name == "external";
    scenario.privacy.clip = refuses_clip ? 0 : 1;  // without which some have no noise to add
    SCOPED_TRACE(algorithm->name);
    ASSERT_OK_AND_ASSIGN(const Composition composition, Compose(scenario, wants_personal ? personal : layout));
    EXPECT_EQ(composition.aggregation.parts.at(0).elements, 7);
    EXPECT_EQ(composition.aggregation.updates_per_version, 3);
    EXPECT_FALSE(algorithm->paper.empty());
    EXPECT_FALSE(algorithm->equations.empty());
    EXPECT_GT(algorithm->doc.size(), 15u);
    EXPECT_OK(FindSettingTable("algorithm", algorithm->name));
  }
  EXPECT_THAT(FindAlgorithm("fedagv"), StatusIs(absl::StatusCode::kNotFound,
                                                HasSubstr("there is no algorithm 'fedagv'. Did you mean 'fedavg'?")));
}

TEST(Compose, SettingsThatMakeNoPlan_AreRefusedByTheirKey) {
  ASSERT_OK_AND_ASSIGN(
      const ModelLayout layout,
      ModelLayout::Create(std::vector<VariableSpec>{{"w", {DType::kFloat32, {7}}, Segment::kTrainable}}));
  Scenario unknown, foreign, heavy;
  unknown.algorithm.name = "fedmgm";
  EXPECT_THAT(Compose(unknown, layout), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no algorithm 'fedmgm'")));
  foreign.algorithm.settings["mu"] = 0.5;
  EXPECT_THAT(Compose(foreign, layout), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("[algorithm] name = \"fedavg\": unknown key 'mu'")));
  heavy.server.value_bits = 30;
  heavy.server.max_weight = (int64_t{1} << 29) - 1;
  heavy.server.clients_per_round = 1000000;
  EXPECT_THAT(Compose(heavy, layout), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server.max_weight")));
}

// A client binds one data set for a plan, under whatever name.
TEST(Compose, DataSetOfAnotherName_IsThatOfEveryPass) {
  Scenario scenario;
  scenario.run.name = "elsewhere";
  scenario.data.name = "ward";
  scenario.data.partition.clients = 5;
  scenario.model.preset = "logistic_regression";
  scenario.evaluation.federated_every = 1;
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Preset("logistic_regression"));
  for (const char* algorithm : {"fedavg", "agnostic", "ifca"}) {
    SCOPED_TRACE(algorithm);
    scenario.algorithm.name = algorithm;
    ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(scenario, model));
    EXPECT_EQ(plan->dataset(), "ward");
  }
}

TEST(AlgorithmReference, IsWhatTheDocumentHolds) {
  const std::string path = std::string(RIVULET_SOURCE_DIR) + "/docs/reference/algorithms.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << "docs/reference/algorithms.md is missing";
  std::stringstream text;
  text << file.rdbuf();
  std::string page = text.str();
  const std::string begin = "<!-- algorithms: begin -->\n", end = "<!-- algorithms: end -->\n";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const size_t start = from + begin.size();
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    page.replace(start, to - start, AlgorithmReference());
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), AlgorithmReference())
      << "run this test with RIVULET_UPDATE_DOCS=1 to bring docs/reference/algorithms.md up to date";
}

}  // namespace
}  // namespace rivulet
