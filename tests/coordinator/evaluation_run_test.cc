// Versions that clients measure besides the rounds, with updates that are plain numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/coordinator/test_run.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunParts MeasuringParts() {
  RunParts parts = TinyParts(6, 2);
  parts.evaluation.updates_per_version = 1000;
  parts.evaluation.scalars = {{"examples", "one"},
                              {"evaluate/loss", "examples"},
                              {"evaluate/rate/right", "one"},
                              {"evaluate/rate/total", "one"}};
  return parts;
}

std::string Measurement(double examples, double loss, double right, double total) {
  proto::Update update;
  auto& scalars = *update.mutable_scalars();
  scalars["examples"] = examples;
  scalars["evaluate/loss"] = loss;
  scalars["evaluate/rate/right"] = right;
  scalars["evaluate/rate/total"] = total;
  return update.SerializeAsString();
}

class EvaluationRunTest : public ::testing::Test {
 protected:
  CoordinatorOptions Options(int64_t every) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(4, 2, 3);
    options.scenario.evaluation.federated_every = every;
    options.scenario.evaluation.federated_clients = 3;
    options.db_path = folder_.db();
    options.observer.on_evaluation = [this](const EvaluationReport& report) { reports_.push_back(report); };
    return options;
  }
  std::vector<ClientRoundRow> Measurements() {
    const auto history = Value(History::Open(folder_.db(), History::Access::kReadOnly));
    std::vector<ClientRoundRow> rows = Value(history->ClientRounds(Value(history->ResolveRun("latest")).run_id));
    std::erase_if(rows, [](const ClientRoundRow& row) { return row.kind != "evaluate"; });
    return rows;
  }

  TestFolder folder_;
  std::vector<EvaluationReport> reports_;  // callbacks come one at a time
};

TEST_F(EvaluationRunTest, EveryVersion_IsMeasuredFromItsOwnModel) {
  CoordinatorOptions options = Options(1);
  FakeFleet fleet(options);
  std::map<int64_t, std::set<std::string>> models;  // that were measured, by round
  fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    if (task.kind == TaskKind::kTrain) {
      EXPECT_OK(FakeFleet::Work(coordinator, client_id, task));
      return;
    }
    models[task.base_version].insert(task.input("model")->id.digest.Hex());
    EXPECT_OK(coordinator.Fetch(As(client_id), task.input("model")->id, 0));
    const double number = client_id.back() - '0';
    EXPECT_OK(Send(coordinator, client_id, task.id, Measurement(10, number, number, 4)));
  };
  {
    const auto coordinator = Value(CreateCoordinator(options, MeasuringParts()));
    EXPECT_OK(fleet.Run(*coordinator, Names(4)));
  }
  ASSERT_EQ(fleet.reports.size(), 3u);
  EXPECT_EQ(models.size(), reports_.size());
  EXPECT_EQ(reports_.back().round, 3) << "the last version always";
  for (const EvaluationReport& report : reports_) {
    EXPECT_EQ(report.reason, "");
    EXPECT_EQ(report.folded, 3);
    EXPECT_THAT(models[report.round],
                ElementsAre(fleet.reports[static_cast<size_t>(report.round) - 1].model_digest.Hex()));
    EXPECT_EQ(report.federated.at("evaluate/loss"), report.federated.at("evaluate/loss/mean"));
    EXPECT_EQ(report.federated.at("evaluate/rate") * 4, report.federated.at("evaluate/loss"));
  }
  const auto history = Value(History::Open(folder_.db(), History::Access::kReadOnly));
  EXPECT_EQ(Value(history->ResolveRun("latest")).status, "finished");
  EXPECT_EQ(Value(history->Rounds(Value(history->ResolveRun("latest")).run_id)).size(), 3u);
}

// What cannot be is no measurement; who says it, and who fails, is replaced by the next of the draw.
TEST_F(EvaluationRunTest, NonsenseIsRefusedAndFailuresAreReplaced) {
  CoordinatorOptions options = Options(3);
  FakeFleet fleet(options);
  int refused = 0;
  fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    if (task.kind == TaskKind::kTrain) {
      EXPECT_OK(FakeFleet::Work(coordinator, client_id, task));
    } else if (refused == 0) {
      const auto result = Send(coordinator, client_id, task.id, Measurement(10, 1, 5, 4));
      ASSERT_OK(result);
      EXPECT_EQ(result->kind, SubmitResult::Kind::kRefused);
      EXPECT_THAT(result->reason, HasSubstr("5 of 4 of 'evaluate/rate' as right, which is impossible"));
      ++refused;
    } else {
      EXPECT_OK(Send(coordinator, client_id, task.id, Measurement(10, 1, 2, 4)));
    }
  };
  {
    const auto coordinator = Value(CreateCoordinator(options, MeasuringParts()));
    EXPECT_OK(fleet.Run(*coordinator, Names(4)));
  }
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].selected, 4);
  EXPECT_EQ(reports_[0].folded, 3);
  EXPECT_EQ(reports_[0].federated.at("evaluate/rate"), 0.5);
  std::vector<std::string> ends;
  for (const ClientRoundRow& row : Measurements()) ends.push_back(row.status);
  std::sort(ends.begin(), ends.end());
  EXPECT_THAT(ends, ElementsAre("folded", "folded", "folded", "refused"));
}

TEST_F(EvaluationRunTest, TooFewAnswers_IsAReasonAndNoEndOfTheRun) {
  CoordinatorOptions options = Options(3);
  FakeFleet fleet(options);
  fleet.act = [&](Coordinator& coordinator, const std::string& client_id, const Task& task) {
    if (task.kind == TaskKind::kTrain) {
      EXPECT_OK(FakeFleet::Work(coordinator, client_id, task));
    } else {
      EXPECT_OK(coordinator.Fail(As(client_id), {.task = task.id, .sentence = "no room"}));
    }
  };
  {
    const auto coordinator = Value(CreateCoordinator(options, MeasuringParts()));
    EXPECT_OK(fleet.Run(*coordinator, Names(4)));
  }
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_NE(reports_[0].reason, "");
  EXPECT_TRUE(reports_[0].federated.empty());
  const auto history = Value(History::Open(folder_.db(), History::Access::kReadOnly));
  const std::string run_id = Value(history->ResolveRun("latest")).run_id;
  EXPECT_EQ(Value(history->ResolveRun("latest")).status, "finished");
  std::vector<std::string> messages;
  for (const EventRow& event : Value(history->Events(run_id))) messages.push_back(event.message);
  EXPECT_THAT(messages, ::testing::Contains(HasSubstr("version 3 was not measured by clients")));
}

TEST_F(EvaluationRunTest, PlanThatDoesNotSayHow_IsRefused) {
  EXPECT_THAT(CreateCoordinator(Options(1), TinyParts(6, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("evaluation.federated_every is 1, and the run's plan does not say how to measure")));
}

// What clients had kept when version 1 was made is what it is measured with, although version 2 is made and durable by
// then; and nobody is told so before the figures of version 1 are durable too, as whoever is told drops what came
// before.
TEST_F(EvaluationRunTest, WhatClientsKept_StaysUntilTheVersionIsMeasured) {
  CoordinatorOptions options = Options(1);
  options.scenario.run.rounds = 2;
  options.scenario.run.durability = "round";
  RunParts parts = MeasuringParts();
  parts.keeps_state = parts.measures_state = true;
  std::map<std::string, TaskId> kept;  // when version 1 was made, by client
  std::map<std::string, TaskId> told;  // of version 2 that are durable, by client
  {
    const auto coordinator = Value(CreateCoordinator(options, parts));
    const auto history = Value(History::Open(folder_.db(), History::Access::kReadOnly));
    const auto rounds = [&] { return Value(history->Rounds(coordinator->run_id())).size(); };
    // Of each client in turn; true: the run is over. Tasks of version 1 are measured when that is allowed.
    const auto work = [&](bool measures) {
      bool over = false;
      for (const std::string& name : Names(4)) {
        PollRequest request = AskedBy(name);
        request.want = 2;
        const PollReply reply = Value(coordinator->Poll(request));
        over = reply.over.has_value();
        for (const TaskOutcome& outcome : reply.outcomes) {
          if (outcome.durable && outcome.task.find("-r2-") != std::string::npos) told[name] = outcome.task;
        }
        for (const Task& task : reply.tasks) {
          if (task.kind == TaskKind::kTrain) {
            EXPECT_OK(FakeFleet::Work(*coordinator, name, task));
            continue;
          }
          if (task.base_version == 1) {
            const auto [known, first] = kept.emplace(name, task.state_of);
            EXPECT_EQ(known->second, task.state_of) << "it is the same task";
          }
          if (!measures) continue;
          EXPECT_OK(Send(*coordinator, name, task.id, Measurement(10, 1, 2, 4)));
        }
      }
      return over;
    };
    while (rounds() < 2) work(false);
    for (int i = 0; i < 3; ++i) work(false);
    EXPECT_TRUE(told.empty()) << "a client would drop what version 1 is measured with";
    while (!work(true)) std::this_thread::yield();
    EXPECT_OK(coordinator->Wait());
  }
  EXPECT_EQ(told.size(), 2u);
  ASSERT_EQ(reports_.size(), 2u);
  ASSERT_EQ(kept.size(), 3u);
  int64_t trained = 0;
  for (const auto& [client_id, task] : kept) {
    trained += !task.empty();
    EXPECT_TRUE(task.empty() || task.find("-r1-a1-" + client_id) != std::string::npos) << task;
  }
  EXPECT_GE(trained, 1);
  EXPECT_LT(trained, 3) << "two of four had trained";
  EXPECT_EQ(reports_[0].federated.at("personal/trained"), static_cast<double>(trained) / 3);
  EXPECT_FALSE(reports_[0].federated.contains("personal/trained/p50"));
  const auto history = Value(History::Open(folder_.db(), History::Access::kReadOnly));
  for (const MetricRow& row : Value(history->Metrics(Value(history->ResolveRun("latest")).run_id, "client"))) {
    if (row.round != 1 || row.name != "personal/trained") continue;
    EXPECT_EQ(row.right, kept.at(row.client_id).empty() ? 0 : 1) << row.client_id;
    EXPECT_EQ(row.total, 1);
  }
}

}  // namespace
}  // namespace rivulet
