// A site's ledger: charges are durable before anything is sent, each task counts once, and a spent budget refuses.
#include "client/agent/privacy_ledger.h"

#include <filesystem>
#include <thread>
#include <vector>

#include "client/agent/site_policy.h"
#include "client/training/failure.h"
#include "federated/privacy/accountant.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

template <typename T>
T Value(StatusOr<T> result) {
  EXPECT_OK(result);
  return result.ok() ? *std::move(result) : T{};
}

std::shared_ptr<const Plan> PlanWith(double multiplier, bool poisson = false) {
  Scenario scenario = testing::LocalScenario();
  scenario.algorithm = {.name = "dp_fedavg", .settings = {{"noise_multiplier", multiplier}}};
  scenario.privacy.clip = 1;
  scenario.server.clients_per_round = 50;
  if (poisson) scenario.selection = {.name = "poisson", .settings = {{"rate", 0.1}}};
  auto plan = Plan::Open(testing::PlanBytes(scenario));
  EXPECT_OK(plan);
  return *plan;
}

double Epsilon(std::vector<privacy::NoisedRounds> rounds) {
  const auto spend = privacy::EpsilonOf({.rounds = std::move(rounds)}, 1e-5);
  EXPECT_OK(spend);
  return spend->value;
}

class PrivacyLedgerTest : public testing::FolderTest {
 protected:
  std::unique_ptr<PrivacyLedger> Open(double epsilon) {
    auto ledger = PrivacyLedger::Open(FileSystem::Default(), Path("ledger"), {.epsilon = epsilon});
    EXPECT_OK(ledger);
    return *std::move(ledger);
  }
};

TEST_F(PrivacyLedgerTest, Claims_AreInThePlanAsTheyWereComposed) {
  const auto plan = PlanWith(1.5, true);
  ASSERT_TRUE(plan->privacy());
  EXPECT_EQ(plan->privacy()->noise_multiplier, 1.5);
  EXPECT_EQ(plan->privacy()->sampling_rate, 0.1);
  EXPECT_EQ(plan->privacy()->cohort, 50);
  EXPECT_FALSE(plan->privacy()->replace_one);
  EXPECT_TRUE(PlanWith(1.5)->privacy()->replace_one);
  EXPECT_FALSE(testing::LocalPlan()->privacy());
}

TEST_F(PrivacyLedgerTest, Charges_AddUpOverRunsAndProcessesWithoutSampling) {
  const auto sampled = PlanWith(2, true), fixed = PlanWith(4);
  {
    const auto ledger = Open(100);
    EXPECT_EQ(Value(ledger->Spent()), 0);
    ASSERT_OK(ledger->Charge("one-r1-a1-c-0", *sampled));
    EXPECT_NEAR(Value(ledger->Spent()), Epsilon({{.multiplier = 2}}), 1e-9) << "the rate is not counted";
    ASSERT_OK(ledger->Charge("two-r1-a1-c-0", *fixed));
    ASSERT_OK(ledger->Charge("two-r2-a1-c-0", *fixed));
  }
  const auto ledger = Open(100);
  EXPECT_NEAR(Value(ledger->Spent()), Epsilon({{.multiplier = 2, .count = 3}}), 1e-9)
      << "replace-one counts as half the noise";
  EXPECT_EQ(Value(ledger->Sentence()),
            fmt::format("epsilon {:.4g} of 100 spent at delta 1e-05", Value(ledger->Spent())));
}

TEST_F(PrivacyLedgerTest, ATaskThatIsSentAgain_IsChargedOnce) {
  const auto plan = PlanWith(2, true);
  const double one = Epsilon({{.multiplier = 2}});
  auto ledger = Open(one * 1.01);
  ASSERT_OK(ledger->Check("run-r1-a1-c-0", *plan));
  ASSERT_OK(ledger->Charge("run-r1-a1-c-0", *plan));
  ledger.reset();
  ledger = Open(one * 1.01);
  EXPECT_OK(ledger->Check("run-r1-a1-c-0", *plan));
  EXPECT_OK(ledger->Charge("run-r1-a1-c-0", *plan));
  EXPECT_NEAR(Value(ledger->Spent()), one, 1e-9);
}

TEST_F(PrivacyLedgerTest, ATaskThatIsAnsweredAgainWithOtherNoise_IsChargedTwice) {
  constexpr auto kOtherNoise = PrivacyLedger::Again::kOtherNoise;
  const auto plan = PlanWith(2, true);
  const double two = Epsilon({{.multiplier = 2, .count = 2}});
  const auto ledger = Open(two * 1.01);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(ledger->Check("run-r1-a1-c-0", *plan, kOtherNoise));
    ASSERT_OK(ledger->Charge("run-r1-a1-c-0", *plan, kOtherNoise));
  }
  EXPECT_NEAR(Value(ledger->Spent()), two, 1e-9);
  EXPECT_THAT(ledger->Check("run-r1-a1-c-0", *plan, kOtherNoise), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ledger->Charge("run-r1-a1-c-0", *plan, kOtherNoise), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(ledger->Charge("run-r1-a1-c-0", *plan)) << "what was sent may be sent again";
  EXPECT_NEAR(Value(ledger->Spent()), two, 1e-9);
}

TEST_F(PrivacyLedgerTest, SpentBudget_RefusesInWordsThatMayLeaveTheSite) {
  const auto plan = PlanWith(2, true);
  const auto ledger = Open(Epsilon({{.multiplier = 2, .count = 3}}) * 1.001);
  for (int i = 0; i < 3; ++i) ASSERT_OK(ledger->Charge(fmt::format("run-r{}-a1-c-0", i), *plan));
  for (const Status& refused : {ledger->Check("run-r9-a1-c-0", *plan), ledger->Charge("run-r9-a1-c-0", *plan)}) {
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("privacy.max_epsilon is")));
    const TaskFailure failure = FailureOf("task", refused);
    EXPECT_EQ(failure.code, TaskFailure::Code::kNotWilling);
    EXPECT_EQ(failure.subject, "privacy budget");
  }
  EXPECT_THAT(ledger->Check("run-r9-a1-c-0", *testing::LocalPlan()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("claims no noise")));
}

TEST_F(PrivacyLedgerTest, FileThatCannotBeWritten_LetsNothingBeSent) {
  std::filesystem::create_directory(Path("gone"));
  ASSERT_OK_AND_ASSIGN(const auto ledger,
                       PrivacyLedger::Open(FileSystem::Default(), Path("gone/ledger"), {.epsilon = 100}));
  std::filesystem::remove_all(Path("gone"));
  EXPECT_FALSE(ledger->Charge("run-r1-a1-c-0", *PlanWith(2)).ok());
}

TEST_F(PrivacyLedgerTest, DamagedFile_IsNotTakenForAnEmptyOne) {
  for (const char* text : {"", "rivulet privacy ledger 1\ncharged 2", "rivulet privacy ledger 1\ncharged 0 3\n",
                           "rivulet privacy ledger 1\nspent 3\n", "rivulet privacy ledger 2\n"}) {
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("ledger"), text));
    EXPECT_THAT(PrivacyLedger::Open(FileSystem::Default(), Path("ledger"), {.epsilon = 1}).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("restore it from a copy")))
        << text;
  }
}

// As two clients of a site have it: each sees what the other has charged.
TEST_F(PrivacyLedgerTest, TwoHolders_ShareOneBudget) {
  const auto plan = PlanWith(2, true);
  const double three = Epsilon({{.multiplier = 2, .count = 3}});
  const auto one = Open(three * 1.001), other = Open(three * 1.001);
  ASSERT_OK(one->Charge("run-r1-a1-a-0", *plan));
  ASSERT_OK(other->Charge("run-r1-a1-b-0", *plan));
  ASSERT_OK(one->Charge("run-r2-a1-a-0", *plan));
  EXPECT_NEAR(Value(other->Spent()), three, 1e-9);
  EXPECT_THAT(other->Charge("run-r2-a1-b-0", *plan), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(other->Charge("run-r1-a1-a-0", *plan)) << "charged before";
}

TEST_F(PrivacyLedgerTest, Threads_LoseNoCharge) {
  const auto plan = PlanWith(50, true);
  const auto one = Open(1000), other = Open(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i)
        EXPECT_OK((t % 2 == 0 ? one : other)->Charge(fmt::format("run-r{}-a1-c{}-0", i, t), *plan));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NEAR(Value(one->Spent()), Epsilon({{.multiplier = 50, .count = 20}}), 1e-9);
}

TEST_F(PrivacyLedgerTest, Authorities_HaveLedgersSideBySide) {
  const auto plan = PlanWith(2, true);
  const std::string first = PrivacyLedgerPath(Path("site"), Sha256Of("an authority")),
                    second = PrivacyLedgerPath(Path("site"), Sha256Of("another"));
  EXPECT_NE(first, second);
  EXPECT_EQ(PrivacyLedgerPath("site", std::nullopt), "site/plaintext.ledger");
  for (const std::string& path : {first, second}) {
    ASSERT_OK_AND_ASSIGN(const auto ledger, PrivacyLedger::Open(FileSystem::Default(), path, {.epsilon = 100}));
    EXPECT_EQ(Value(ledger->Spent()), 0);
    ASSERT_OK(ledger->Charge("run-r1-a1-c-0", *plan));
  }
}

TEST_F(PrivacyLedgerTest, LedgerOfAnOlderProgram_IsTakenOver) {
  const auto plan = PlanWith(2, true);
  ASSERT_OK(Open(100)->Charge("run-r1-a1-c-0", *plan));
  const auto open = [&] {
    return PrivacyLedger::Open(FileSystem::Default(), Path("site/new.ledger"), {.epsilon = 100}, Path("ledger"));
  };
  {
    ASSERT_OK_AND_ASSIGN(const auto ledger, open());
    EXPECT_NEAR(Value(ledger->Spent()), Epsilon({{.multiplier = 2}}), 1e-9);
    ASSERT_OK(ledger->Charge("run-r2-a1-c-0", *plan));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("ledger")));
  ASSERT_OK_AND_ASSIGN(const auto ledger, open());
  EXPECT_NEAR(Value(ledger->Spent()), Epsilon({{.multiplier = 2, .count = 2}}), 1e-9);
  // Another state folder of the site has one too.
  ASSERT_OK(Open(100)->Charge("run-r1-a1-d-0", *plan));
  ASSERT_OK_AND_ASSIGN(const auto both, open());
  EXPECT_NEAR(Value(both->Spent()), Epsilon({{.multiplier = 2, .count = 3}}), 1e-9);
}

TEST_F(PrivacyLedgerTest, Policy_AsksForClaims) {
  const auto policy = [](const std::string& toml) {
    auto parsed = ParseSitePolicy("[privacy]\n" + toml, "site.toml");
    EXPECT_OK(parsed);
    return *parsed;
  };
  EXPECT_EQ(policy("max_epsilon = 8\ndelta = 1e-6\n").privacy.max_epsilon, 8);
  EXPECT_EQ(policy("max_epsilon = 8\ndelta = 1e-6\n").privacy.delta, 1e-6);
  EXPECT_EQ(policy("max_epsilon = 8\n").privacy.delta, 1e-5);
  EXPECT_EQ(policy("max_epsilon = 8\n").privacy.ledger, "");
  EXPECT_EQ(policy("ledger = \"/var/lib/ledgers\"\n").privacy.ledger, "/var/lib/ledgers");
  EXPECT_EQ(policy("ledger = \"ledgers\"\n").privacy.ledger, "./ledgers") << "beside the policy";
  EXPECT_OK(CheckPlan(policy("max_epsilon = 8\nmin_cohort = 50\n"), *PlanWith(1)));
  EXPECT_THAT(CheckPlan(policy("max_epsilon = 8\n"), *testing::LocalPlan()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("claims no noise")));
  EXPECT_THAT(
      CheckPlan(policy("min_cohort = 51\n"), *PlanWith(1)),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("50 updates a version, and this site wants 51")));
}

}  // namespace
}  // namespace rivulet
