// Whole runs with secure aggregation, by agents in threads, including runs that lose clients at a step. Fixture of this
// folder's tests.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulations/whole_runs.h"
#include "tests/testing/secure_identities.h"

namespace rivulet {

using testing::ForwardingCoordinator;

inline constexpr int kSteps = 5, kSumStep = 2;  // of secagg_plus

// A fault of one client in one round: its answers from `step` on are lost, and it reports failure.
struct Loss {
  int64_t round = 0;
  int step = 0;
  TaskKind kind = TaskKind::kTrain;
};

class LossyCoordinator final : public ForwardingCoordinator {
 public:
  LossyCoordinator(CoordinatorApi& api, std::vector<Loss> losses)
      : ForwardingCoordinator(api), losses_(std::move(losses)) {}
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
    for (const Loss& loss : losses_) {
      // The plain run's only step is that of the sum.
      const bool step =
          submission.kind == Submission::Kind::kStep ? submission.step == loss.step : loss.step <= kSumStep;
      if (!name || name->round != loss.round || name->kind != loss.kind || !step) continue;
      api_.Fail(caller, {.task = submission.task}).IgnoreError();  // may already be over
      return Aborted("lost by the test");
    }
    return ForwardingCoordinator::Submit(caller, submission);
  }

 private:
  const std::vector<Loss> losses_;
};

// The agent dies in one step of one round, before it sends any of the answer.
class FatalCoordinator final : public ForwardingCoordinator {
 public:
  FatalCoordinator(CoordinatorApi& api, Loss at) : ForwardingCoordinator(api), at_(at) {}
  void SetVictim(Agent* agent) { agent_ = agent; }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
    if (!name || name->round != at_.round || submission.step != at_.step) {
      return ForwardingCoordinator::Submit(caller, submission);
    }
    agent_->Stop();
    return Unavailable("killed by the test");
  }

 private:
  const Loss at_;
  Agent* agent_ = nullptr;
};

class SecureRunsTest : public SimulatorTest {
 protected:
  // All seven clients take part in each round, so that no client replaces another.
  Scenario Plain(const std::string& algorithm = "fedavg") {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 3;
    scenario.run.durability = "end";
    scenario.data.partition.clients = 7;
    scenario.server.clients_per_round = 7;
    scenario.server.min_reports = 3;
    scenario.algorithm.name = algorithm;
    scenario.privacy.clip = 0.75;
    scenario.server.value_bits = 0;
    return scenario;
  }
  static Scenario Secure(Scenario scenario) {
    scenario.secure.protocol = "secagg_plus";
    return scenario;
  }

  // Agents and a coordinator with certificates. `hides`: the site's policy requires secure sums.
  Deployed WithCertificates(const std::string& db, bool hides = true) {
    Deployed changed;
    changed.coordinator = [this](CoordinatorOptions& options) {
      // On the day of the certificates; it goes on, as pauses between attempts are by it.
      options.now_ms = [begun = std::chrono::steady_clock::now()] {
        return testing::kHarnessNow * 1000 +
               std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun).count();
      };
      options.identity = [identity = testing::IdentityOf(authority_, "coordinator")] { return identity; };
    };
    changed.agent = [this, db, hides](AgentOptions& agent, int64_t i) {
      auto secure = std::make_shared<SecureIdentity>(
          *testing::SecureIdentityOf(authority_, agent.client_id, Path(fmt::format("{}.answered-{}", db, i))));
      secure->hides_examples = hides;
      agent.secure = secure;
    };
    return changed;
  }

  // `losses`: by client number.
  Trace Run(const Scenario& scenario, const std::string& db, const std::map<int64_t, std::vector<Loss>>& losses = {},
            const std::function<std::unique_ptr<CoordinatorApi>(CoordinatorApi&, int64_t)>& wrap = nullptr) {
    Deployed changed = WithCertificates(db);
    changed.between = [&](CoordinatorApi& api, int64_t i) -> std::unique_ptr<CoordinatorApi> {
      if (wrap) return wrap(api, i);
      const auto lost = losses.find(i);
      return lost == losses.end() ? nullptr : std::make_unique<LossyCoordinator>(api, lost->second);
    };
    return Deploy(scenario, db, changed);
  }

  // Clients by number, each of which dies when it answers a step of a round. With `again`, another process with its
  // name starts at once.
  Trace RunWithDeaths(const Scenario& scenario, const std::string& db, const std::map<int64_t, Loss>& deaths,
                      bool again) {
    Deployed changed = WithCertificates(db);
    changed.run = [&](CoordinatorApi& api, const AgentOptions& options, int64_t i) -> std::optional<Status> {
      const auto death = deaths.find(i);
      if (death == deaths.end()) return std::nullopt;
      FatalCoordinator fatal(api, death->second);
      Agent agent(fatal, options);
      fatal.SetVictim(&agent);
      EXPECT_THAT(agent.Run(), StatusIs(absl::StatusCode::kCancelled));
      return again ? Agent(api, options).Run() : absl::OkStatus();
    };
    return Deploy(scenario, db, changed);
  }

  // Per attempt: the noise multiplier, and epsilon against viewers of the models.
  std::vector<std::pair<double, double>> SpendOf(const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    const auto rounds = (*history)->Rounds((*history)->ResolveRun("latest")->run_id);
    EXPECT_OK(rounds);
    std::vector<std::pair<double, double>> spent;
    for (const RoundRow& round : *rounds) spent.emplace_back(round.noise_multiplier.value(), round.epsilon.value());
    return spent;
  }

  const testing::TestAuthority& authority_ = testing::SharedAuthority();
};

// "3 evaluate/accuracy 40/53 0.25": the sum of all clients' measurements.
inline std::vector<std::string> SummedMeasures(const std::string& db) {
  std::vector<std::string> lines;
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, "federated");
  EXPECT_OK(rows);
  for (const MetricRow& row : *rows) {
    if (row.name != "evaluate/accuracy" && row.name != "evaluate/loss") continue;
    lines.push_back(fmt::format("{} {} {}/{} {}", row.round, row.name, row.right.value_or(-1), row.total.value_or(-1),
                                row.value.value_or(-1)));
  }
  return lines;
}

// The number of rows about single clients, or about the distribution over them.
inline int64_t MeasuredOfSingleClients(const std::string& db) {
  const auto history = History::Open(db, History::Access::kReadOnly);
  EXPECT_OK(history);
  int64_t found = 0;
  for (const char* scope : {"federated", "client"}) {
    const auto rows = (*history)->Metrics((*history)->ResolveRun("latest")->run_id, scope);
    EXPECT_OK(rows);
    for (const MetricRow& row : *rows)
      if (row.name.starts_with("evaluate/") && row.name != "evaluate/accuracy" && row.name != "evaluate/loss") ++found;
  }
  return found;
}

}  // namespace rivulet
