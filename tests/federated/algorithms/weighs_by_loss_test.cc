// TERM and q-FedAvg on given updates and losses, compared with their formulas in double.
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/draws.h"
#include "federated/aggregation/aggregation.h"
#include "federated/mechanisms/mechanism.h"
#include "federated/numbers/number_rule.h"
#include "federated/random/streams.h"
#include "tests/federated/algorithms/server_rounds.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

struct Client {
  double loss;
  std::vector<float> delta;
};

const std::vector<Client> kFar = {{30, {1, 0.5f}}, {90, {-2, 0.25f}}, {150, {0.5f, -1}}};

StatusOr<Composition> Composed(const std::string& algorithm, const SettingValues& options,
                               const std::string& base = "") {
  Scenario scenario;
  scenario.server.clients_per_round = 3;
  scenario.server.base = base;
  scenario.client.optimizer.learning_rate = 0.1;
  scenario.algorithm.name = algorithm;
  scenario.algorithm.settings = options;
  return Compose(scenario, *testing::LayoutOfWeights(2));
}

// The mean of one round, as a client's update and the sums of the server make it.
StatusOr<std::vector<float>> MeanOf(const Composition& composition, const std::vector<Client>& clients,
                                    const Scalars& numbers) {
  RIVULET_ASSIGN_OR_RETURN(const auto mechanism, Mechanism::Create(composition.mechanisms.at(0)));
  RIVULET_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::Create(composition.aggregation));
  for (size_t i = 0; i < clients.size(); ++i) {
    std::vector<float> values = clients[i].delta;
    Scalars declared = numbers;
    declared["initial_loss"] = clients[i].loss;
    declared["examples"] = 1;
    const std::vector<std::span<float>> parts = {values};
    Draws draws(StreamFor(1, "a", Purpose::kNoise, 0), 0);
    RIVULET_RETURN_IF_ERROR(mechanism->Apply(parts, draws, declared));
    const FloatRun run{values.data(), nullptr, 2};
    const PartView view{.name = "delta", .runs = {&run, 1}};
    RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(composition.aggregation, declared, numbers));
    RIVULET_RETURN_IF_ERROR(aggregation->Fold({fmt::format("run-{}", i), 0, {&view, 1}, declared}, weights));
  }
  RIVULET_ASSIGN_OR_RETURN(const ServerInput input, std::move(*aggregation).Finish());
  return input.Find("delta")->mean;
}

// The numbers that tasks bring after a round in which clients told these losses.
Scalars NumbersAfter(const Composition& composition, const std::vector<double>& losses) {
  const auto rule = NumberRule::For(composition.numbers, composition.number_rule);
  EXPECT_OK(rule);
  ServerNumbers numbers = (*rule)->First();
  std::vector<ReportedLoss> told;
  for (const double loss : losses) told.push_back({fmt::format("t{}", told.size()), "a", 1, loss});
  return (*rule)->Of((*rule)->Next(numbers, told, {}), "a");
}

// Σ e^(t·(F_k − max F)) Δ_k / Σ e^(t·(F_k − max F)).
std::vector<double> Tilted(const std::vector<Client>& clients, double t) {
  double most = -1e300, sum = 0;
  for (const Client& client : clients) most = std::max(most, t * client.loss);
  std::vector<double> mean(2);
  for (const Client& client : clients) {
    const double weight = std::exp(t * client.loss - most);
    sum += weight;
    for (size_t i = 0; i < 2; ++i) mean[i] += weight * client.delta[i];
  }
  return {mean[0] / sum, mean[1] / sum};
}

// Σ F_k^q Δ_k / Σ (F_k^q + q L F_k^(q − 1) ‖Δ_k‖²), with L = 10.
std::vector<double> Fair(const std::vector<Client>& clients, double q) {
  double sum = 0;
  std::vector<double> mean(2);
  for (const Client& client : clients) {
    double squares = 0;
    for (const float value : client.delta) squares += static_cast<double>(value) * value;
    sum += std::pow(client.loss, q) + q * 10 * std::pow(client.loss, q - 1) * squares;
    for (size_t i = 0; i < 2; ++i) mean[i] += std::pow(client.loss, q) * client.delta[i];
  }
  return {mean[0] / sum, mean[1] / sum};
}

void ExpectNear(const StatusOr<std::vector<float>>& found, const std::vector<double>& wanted) {
  ASSERT_OK(found);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR((*found)[i], wanted[i], 2e-6) << i;
}

// Of losses from 30 to 150 with t = 1 the worst client counts alone: its weight is 1 − e^−60.
TEST(WeighsByLoss, LossesFarFromZero_AreTheFormulasMean) {
  for (const double t : {1.0, 0.1, 0.02, -0.02, -1.0}) {
    SCOPED_TRACE(t);
    const double reference = t > 0 ? 150 : 30;
    ASSERT_OK_AND_ASSIGN(const Composition term, Composed("term", {{"t", t}, {"reference", reference}}));
    ExpectNear(MeanOf(term, kFar, NumbersAfter(term, {})), Tilted(kFar, t));
    ExpectNear(MeanOf(term, kFar, NumbersAfter(term, {60, 30.5, 148})), Tilted(kFar, t));
  }
  ASSERT_OK_AND_ASSIGN(const Composition sharp, Composed("term", {{"t", 1.0}, {"reference", 150.0}}));
  ExpectNear(MeanOf(sharp, kFar, NumbersAfter(sharp, {})), {0.5, -1});
  for (const double q : {1.0, 2.5, 5.0}) {
    SCOPED_TRACE(q);
    ASSERT_OK_AND_ASSIGN(const Composition fair, Composed("q_fedavg", {{"q", q}, {"reference", 100.0}}));
    ExpectNear(MeanOf(fair, kFar, NumbersAfter(fair, {})), Fair(kFar, q));
    ExpectNear(MeanOf(fair, kFar, NumbersAfter(fair, {60, 30.5, 148})), Fair(kFar, q));
  }
}

TEST(WeighsByLoss, Reference_ChangesNoMeanAndIsWhatSumsHold) {
  const std::vector<Client> near = {{1, {1, 0.5f}}, {2, {-2, 0.25f}}, {2.5, {0.5f, -1}}};
  for (const double reference : {0.5, 1.0, 3.0}) {
    ASSERT_OK_AND_ASSIGN(const Composition term, Composed("term", {{"t", 1.5}, {"reference", reference}}));
    ExpectNear(MeanOf(term, near, {}), Tilted(near, 1.5));
    ASSERT_OK_AND_ASSIGN(const Composition fair, Composed("q_fedavg", {{"q", 1.5}, {"reference", reference}}));
    ExpectNear(MeanOf(fair, near, {}), Fair(near, 1.5));
  }
  // By the default no sum holds the weights of far losses, and the error says how to go on.
  ASSERT_OK_AND_ASSIGN(const Composition term, Composed("term", {{"t", 1.0}}));
  EXPECT_THAT(ErrorOf(MeanOf(term, kFar, NumbersAfter(term, {}))),
              HasSubstr("the client's loss is 30, and algorithm.t · (loss − reference) is 30 with the reference 0, "
                        "beyond 10; set algorithm.reference to a loss near this one"));
  ASSERT_OK_AND_ASSIGN(const Composition fair, Composed("q_fedavg", {{"q", 5.0}}));
  EXPECT_THAT(ErrorOf(MeanOf(fair, kFar, NumbersAfter(fair, {}))),
              HasSubstr("set algorithm.reference to a loss near this one"));
}

TEST(WeighsByLoss, WeightsBelowTheSumsSteps_AreRefusedAndNotRounded) {
  ASSERT_OK_AND_ASSIGN(const Composition term, Composed("term", {{"t", 1.0}, {"reference", 170.0}}));
  EXPECT_THAT(ErrorOf(MeanOf(term, kFar, NumbersAfter(term, {}))), HasSubstr("or rounding dominates their mean"));
}

TEST(WeighsByLoss, LossThatIsNoNumberOrNegative_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const Composition term, Composed("term", {}));
  ASSERT_OK_AND_ASSIGN(const Composition fair, Composed("q_fedavg", {}));
  for (const Composition& of : {term, fair}) {
    EXPECT_THAT(ErrorOf(MeanOf(of, {{std::nan(""), {1, 1}}}, {})), HasSubstr("training diverged"));
  }
  EXPECT_THAT(ErrorOf(MeanOf(fair, {{-1, {1, 1}}}, {})), HasSubstr("takes powers of losses"));
  ExpectNear(MeanOf(term, {{-1, {1, 1}}}, {}), {1, 1});
}

// Several versions in one sum have one reference.
TEST(WeighsByLoss, ReferenceMoves_WhereAVersionsTasksStartTogether) {
  for (const char* algorithm : {"term", "q_fedavg"}) {
    ASSERT_OK_AND_ASSIGN(const Composition together, Composed(algorithm, {}));
    EXPECT_EQ(together.numbers, std::vector<std::string>{"loss_reference"});
    ASSERT_OK_AND_ASSIGN(const Composition late, Composed(algorithm, {}, "latest"));
    EXPECT_TRUE(late.numbers.empty());
  }
  ASSERT_OK_AND_ASSIGN(const Composition none, Composed("term", {{"t", 0.0}}));
  EXPECT_TRUE(none.numbers.empty());
  ASSERT_OK_AND_ASSIGN(const Composition many, Composed("term", {{"t", -1.0}}));
  EXPECT_EQ(NumbersAfter(many, {3, std::nan(""), 2, 5}).at("loss_reference"), 2);
  ASSERT_OK_AND_ASSIGN(const Composition worst, Composed("term", {{"t", 1.0}}));
  EXPECT_EQ(NumbersAfter(worst, {3, std::nan(""), 2, 5}).at("loss_reference"), 5);
}

}  // namespace
}  // namespace rivulet
