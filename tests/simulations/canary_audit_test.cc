// Audits of whole simulated runs by canary clients.
#include "simulations/canary_audit.h"

#include "tests/simulations/whole_runs.h"

namespace rivulet {
namespace {

class CanaryAuditTest : public SimulatorTest {
 protected:
  // Two hundred clients in each round, most of them canaries.
  Scenario AuditedScenario(double noise_multiplier) {
    Scenario scenario = SmallScenario();
    scenario.run.rounds = 2;
    scenario.run.durability = "end";
    scenario.evaluation.every = 0;
    scenario.data.train = WriteRecords("two-hundred.tfrecord", DigitRecords(400));
    scenario.data.partition.clients = 200;
    scenario.server.clients_per_round = 200;
    scenario.privacy.clip = 0.5;
    scenario.algorithm = {
        .name = "dp_fedavg",
        .settings = {{"noise_multiplier", noise_multiplier}, {"noise_source", std::string("seeded")}}};
    scenario.attack = {.name = "canary", .fraction = 0.9, .settings = {{"norm", 0.5}}};
    return scenario;
  }
  StatusOr<CanaryAudit> Audit(const Scenario& scenario, const std::string& db, int64_t guesses = 0) {
    return AuditByCanaries({.scenario = scenario, .db_path = Path(db), .run = "latest", .guesses = guesses});
  }
};

// Little noise shows every canary, and the bound is as far as so many guesses reach; it is below what was claimed.
TEST_F(CanaryAuditTest, LittleNoise_ShowsEachCanaryAndKeepsTheClaim) {
  const Scenario scenario = AuditedScenario(0.05);
  ASSERT_OK(Simulate(scenario, 2, "little.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const CanaryAudit audit, Audit(scenario, "little.sqlite"));
  EXPECT_EQ(audit.canaries, 180);
  EXPECT_EQ(audit.round, 2);
  EXPECT_GT(audit.taken, 60);
  EXPECT_LT(audit.taken, 120);
  EXPECT_EQ(audit.guessed.guesses, 40);
  EXPECT_EQ(audit.guessed.right, 40);
  EXPECT_NEAR(audit.guessed.epsilon, 1.66, 0.02);  // 0.001^(1/40) is the coin of epsilon 1.67
  EXPECT_GT(audit.estimate.epsilon, audit.guessed.epsilon);
  ASSERT_TRUE(audit.claimed);
  EXPECT_FALSE(audit.refuted());
  EXPECT_THAT(Message(Audit(scenario, "little.sqlite", 7).status()), HasSubstr("an even number from 2 to 180"));
}

TEST_F(CanaryAuditTest, MuchNoise_HidesThem) {
  const Scenario scenario = AuditedScenario(20);
  ASSERT_OK(Simulate(scenario, 2, "much.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const CanaryAudit audit, Audit(scenario, "much.sqlite"));
  EXPECT_LT(audit.guessed.right, 30);
  EXPECT_LT(audit.guessed.epsilon, 0.5);
  EXPECT_FALSE(audit.refuted());
  ASSERT_OK_AND_ASSIGN(const CanaryAudit little, Audit(scenario, "much.sqlite", 20));
  EXPECT_EQ(little.guessed.guesses, 20);
}

TEST_F(CanaryAuditTest, RunWithoutCanaries_IsRefused) {
  Scenario scenario = AuditedScenario(1);
  scenario.attack = {};
  ASSERT_OK(Simulate(scenario, 2, "plain.sqlite").status);
  EXPECT_THAT(Audit(scenario, "plain.sqlite").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("attack.name = \"canary\"")));
  scenario = AuditedScenario(1);
  scenario.attack.fraction = 0.02;
  ASSERT_OK(Simulate(scenario, 2, "few.sqlite").status);
  EXPECT_THAT(Audit(scenario, "few.sqlite").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 4 canaries")));
}

}  // namespace
}  // namespace rivulet
