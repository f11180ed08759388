#include "coordinator/ledger/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "coordinator/ledger/ledger.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::ErrorOf;

AggregationSpec DigitsSpec() {
  AggregationSpec spec;
  spec.scalars = {{"examples", "one"},
                  {"evaluate/loss", "examples"},
                  {"evaluate/accuracy/right", "one"},
                  {"evaluate/accuracy/total", "one"}};
  return spec;
}

Scalars Says(double examples, double loss, double right, double total) {
  return {{"examples", examples},
          {"steps", 1},
          {"evaluate/loss", loss},
          {"evaluate/accuracy/right", right},
          {"evaluate/accuracy/total", total}};
}

TEST(EvaluationTest, OneClient_ItsMeansAndItsCounts) {
  EXPECT_EQ(*MeasuresOf(DigitsSpec(), Says(4, 0.75, 3, 4)),
            (Measures{{"evaluate/accuracy", Measure::Rate(3, 4)}, {"evaluate/loss", {0.75}}}));
}

TEST(EvaluationTest, Sums_AreDividedByExamples) {
  // Clients of 4 and 6 examples with losses 0.5 and 1: (2 + 6) / 10.
  EXPECT_EQ(*MeasuresOfSums(DigitsSpec(), Says(10, 8, 7, 10)),
            (Measures{{"evaluate/accuracy", Measure::Rate(7, 10)}, {"evaluate/loss", {0.8}}}));
}

TEST(EvaluationTest, RateOfNothing_IsNone) {
  EXPECT_EQ(*MeasuresOf(DigitsSpec(), Says(4, 0.75, 0, 0)), (Measures{{"evaluate/loss", {0.75}}}));
}

TEST(EvaluationTest, WhatCannotBe_IsRefusedInASentence) {
  const auto error = [](const Scalars& declared) { return ErrorOf(MeasuresOf(DigitsSpec(), declared)); };
  EXPECT_EQ(error(Says(4, 0.5, 5, 4)), "it reports 5 of 4 of 'evaluate/accuracy' as right, which is impossible");
  EXPECT_EQ(error(Says(4, 0.5, -1, 4)), "it reports -1 of 4 of 'evaluate/accuracy' as right, which is impossible");
  EXPECT_EQ(error(Says(4, 0.5, 1.5, 4)), "it reports 1.5 of 4 of 'evaluate/accuracy' as right, which is impossible");
  EXPECT_EQ(error(Says(4, HUGE_VAL, 1, 4)), "its 'evaluate/loss' is inf, which is not finite");
  EXPECT_EQ(error({{"examples", 4}}), "it lacks 'evaluate/loss', which the plan requires");
  EXPECT_EQ(ErrorOf(MeasuresOfSums(DigitsSpec(), Says(0, 0, 0, 0))), "no client had an example to measure with");
}

// Two classes: 3 of 4 and 1 of 2 right, of 5 and 1 that were taken for them. Precision 3/5 and 1/1, so 0.8 in the mean.
TEST(EvaluationTest, Counts_BecomeTheirMetric) {
  AggregationSpec spec;
  spec.scalars = {{"examples", "one"}};
  Scalars declared = {{"examples", 6}};
  const std::vector<double> counts = {3, 1, 5, 1, 4, 2};
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string name = fmt::format("evaluate/precision/count/{:04}", i);
    spec.scalars.push_back({name, "one"});
    declared[name] = counts[i];
  }
  EXPECT_EQ(*MeasuresOf(spec, declared), (Measures{{"evaluate/precision", {0.8}}}));
  EXPECT_EQ(*MeasuresOfSums(spec, declared), (Measures{{"evaluate/precision", {0.8}}}));
  declared["evaluate/precision/count/0002"] = 1.5;
  EXPECT_EQ(ErrorOf(MeasuresOf(spec, declared)),
            "it says that 'evaluate/precision/count/0002' is 1.5, which is no count");
  declared["evaluate/precision/count/0002"] = -1;
  EXPECT_EQ(ErrorOf(MeasuresOf(spec, declared)),
            "it says that 'evaluate/precision/count/0002' is -1, which is no count");
}

// Ten clients of accuracy 0.1, 0.2, …, 1: the smallest that 10 % do not exceed is the first, half are the fifth, and
// the worst tenth is one client. Of losses the worst are the highest.
TEST(EvaluationTest, Distribution_ByHand) {
  std::vector<Measures> clients;
  for (int i = 1; i <= 10; ++i)
    clients.push_back({{"evaluate/accuracy", Measure::Rate(i, 10)}, {"evaluate/loss", {static_cast<double>(i)}}});
  std::vector<const Measures*> order;
  for (const Measures& client : clients) order.push_back(&client);
  const Measures spread = Distribution(order);
  EXPECT_EQ(spread.size(), 10u);
  EXPECT_NEAR(spread.at("evaluate/accuracy/mean").value, 0.55, 1e-15);
  EXPECT_EQ(spread.at("evaluate/accuracy/p10").value, 0.1);
  EXPECT_EQ(spread.at("evaluate/accuracy/p50").value, 0.5);
  EXPECT_EQ(spread.at("evaluate/accuracy/p90").value, 0.9);
  EXPECT_EQ(spread.at("evaluate/accuracy/worst_decile").value, 0.1);
  EXPECT_EQ(spread.at("evaluate/loss/worst_decile").value, 10);
  EXPECT_EQ(spread.at("evaluate/loss/p90").value, 9);
  EXPECT_EQ(spread.at("evaluate/loss/p90").total, std::nullopt);

  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  EXPECT_EQ(Distribution(order), spread);
}

// Ten clients of errors 1, 2, …, 10: the worst is the one that is furthest off, of r2 the one of whom least is
// explained.
TEST(EvaluationTest, WorstDecileOfNumbers_IsOfTheLargestErrors) {
  std::vector<Measures> clients;
  for (int i = 1; i <= 10; ++i)
    clients.push_back({{"evaluate/mse", {1.0 * i}}, {"personal/mae", {2.0 * i}}, {"evaluate/r2", {-1.0 * i}}});
  std::vector<const Measures*> order;
  for (const Measures& client : clients) order.push_back(&client);
  const Measures spread = Distribution(order);
  EXPECT_EQ(spread.at("evaluate/mse/worst_decile").value, 10);
  EXPECT_EQ(spread.at("personal/mae/worst_decile").value, 20);
  EXPECT_EQ(spread.at("evaluate/r2/worst_decile").value, -10);
}

TEST(EvaluationTest, SpreadOfALoss_IsBetterLowerAsTheLossIs) {
  for (const char* name : {"evaluate/loss", "evaluate/loss/p90", "evaluate/mse/worst_decile", "test/mae"})
    EXPECT_TRUE(LowerIsBetter(name)) << name;
  for (const char* name : {"evaluate/accuracy/worst_decile", "test/r2", "evaluate/accuracy/p10"})
    EXPECT_FALSE(LowerIsBetter(name)) << name;
}

TEST(EvaluationTest, Distribution_OfElevenClients_TheWorstTenthIsTwo) {
  std::vector<Measures> clients;
  for (int i = 1; i <= 11; ++i) clients.push_back({{"evaluate/loss", {static_cast<double>(i)}}});
  clients.push_back({});  // has none
  std::vector<const Measures*> order;
  for (const Measures& client : clients) order.push_back(&client);
  const Measures spread = Distribution(order);
  EXPECT_EQ(spread.at("evaluate/loss/p10").value, 2);  // rank ceil(1.1)
  EXPECT_EQ(spread.at("evaluate/loss/p50").value, 6);
  EXPECT_EQ(spread.at("evaluate/loss/p90").value, 10);
  EXPECT_EQ(spread.at("evaluate/loss/worst_decile").value, 10.5);
  EXPECT_TRUE(Distribution({}).empty());
}

ClosedAttempt::ClosedTask Measured(const std::string& client_id, int64_t right) {
  ClosedAttempt::ClosedTask task;
  task.lease.task = "tiny-e3-a1-" + client_id + "-0";
  task.lease.client_id = client_id;
  task.lease.base_round = 3;
  task.lease.state = Lease::State::kFolded;
  task.facts.examples = 10;
  task.facts.measures = {{"evaluate/accuracy", Measure::Rate(right, 10)}};
  return task;
}

ClosedAttempt Cohort() {
  ClosedAttempt cohort;
  cohort.run_id = "tiny";
  cohort.kind = TaskKind::kEvaluate;
  cohort.round = 3;
  cohort.started = 1000;
  cohort.closed = 4000;
  cohort.tasks = {Measured("c", 9), Measured("a", 4)};
  cohort.tasks.emplace_back().lease.client_id = "b";
  cohort.tasks.back().lease.state = Lease::State::kFailed;
  cohort.tasks.back().lease.reason = "out of memory";
  return cohort;
}

TEST(EvaluationTest, Rows_AreOfTheVersionAndOfEachClient) {
  AttemptEnd end;
  end.status = "measured";
  end.federated = {{"evaluate/accuracy", Measure::Rate(13, 20)}};
  const AttemptRecord record = RowsOf(Cohort(), end);
  EXPECT_EQ(record.kind, "evaluate");
  EXPECT_EQ(record.round.train_seconds, 0);
  EXPECT_EQ(record.round.evaluate_seconds, 3);
  ASSERT_EQ(record.tasks.size(), 3u);
  for (const ClientRoundRow& task : record.tasks) {
    EXPECT_EQ(task.kind, "evaluate");
    EXPECT_EQ(task.committed_round, std::nullopt);
    EXPECT_EQ(task.staleness, std::nullopt);
  }
  EXPECT_EQ(record.tasks[1].status, "failed");
  std::vector<std::string> metrics;
  for (const MetricRow& row : record.metrics)
    metrics.push_back(fmt::format("{} {} {} {} {}/{}", row.scope, row.client_id, row.name, *row.value,
                                  row.right.value_or(-1), row.total.value_or(-1)));
  EXPECT_EQ(metrics,
            (std::vector<std::string>{
                "client a evaluate/accuracy 0.4 4/10", "client c evaluate/accuracy 0.9 9/10",
                "federated  evaluate/accuracy 0.65 13/20", "federated  evaluate/accuracy/mean 0.65 -1/-1",
                "federated  evaluate/accuracy/p10 0.4 -1/-1", "federated  evaluate/accuracy/p50 0.4 -1/-1",
                "federated  evaluate/accuracy/p90 0.9 -1/-1", "federated  evaluate/accuracy/worst_decile 0.4 -1/-1"}));
}

TEST(EvaluationTest, Outcomes_SayWhatBecameOfEach) {
  AttemptEnd end;
  end.status = "measured";
  std::map<std::string, TaskEnd> ends;
  for (const auto& [client_id, outcome] : OutcomesOf(Cohort(), end)) ends[client_id] = outcome.end;
  EXPECT_EQ(ends, (std::map<std::string, TaskEnd>{
                      {"a", TaskEnd::kFolded}, {"b", TaskEnd::kFailed}, {"c", TaskEnd::kFolded}}));
  end.status = "abandoned";
  end.reason = "2 of 3 answered";
  const auto given_up = OutcomesOf(Cohort(), end);
  EXPECT_EQ(given_up[0].second.end, TaskEnd::kDropped);
  EXPECT_EQ(given_up[0].second.reason, "version 3 was not measured: 2 of 3 answered");
}

TEST(EvaluationTest, GivenUp_LeavesRowsAndNoMeasures) {
  AttemptEnd end;
  end.status = "abandoned";
  end.reason = "2 of 3 answered";
  const AttemptRecord record = RowsOf(Cohort(), end);
  EXPECT_TRUE(record.metrics.empty());
  EXPECT_EQ(record.tasks[0].status, "dropped");
  EXPECT_EQ(record.tasks[0].error, "the evaluation was abandoned");
  EXPECT_EQ(record.events.back().message, "version 3 was not measured by clients: 2 of 3 answered");
}

}  // namespace
}  // namespace rivulet
