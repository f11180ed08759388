#include "client/agent/site_policy.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "certificates/author.h"
#include "client/agent/eligibility.h"
#include "client/agent/plan_facts.h"
#include "client/training/artifact_cache.h"
#include "client/training/failure.h"
#include "client/training/pass_programs.h"
#include "client/training/planned_memory.h"
#include "federated/plan/plan_signature.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::PlanBytes;

struct TestAuthor {
  KeyHandle key = MakeAuthorKey().value();
  std::string bytes = AuthorOf(key.get(), "author").value();
  std::string text = AuthorText(bytes);
  std::string Signed(std::string_view plan) const { return WithSignature(plan, bytes, Sign(key.get(), plan).value()); }
};

std::shared_ptr<const Plan> OpenPlan(std::string bytes) {
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(std::move(bytes));
  EXPECT_OK(plan);
  return *plan;
}

SitePolicy Policy(const std::string& toml) {
  StatusOr<SitePolicy> policy = ParseSitePolicy(toml, "site.toml");
  EXPECT_OK(policy);
  return *policy;
}

SitePolicy Pinned(const TestAuthor& author) {
  return Policy(fmt::format("[plans]\nauthors = [\"{}\"]\n", author.text));
}

// What of the refusal may leave the site.
std::string SubjectOf(const Status& status) {
  const TaskFailure failure = FailureOf("task", status);
  EXPECT_EQ(failure.code, TaskFailure::Code::kNotWilling);
  return failure.subject;
}

TEST(SitePolicyTest, NothingSaid_RunsAnything) { EXPECT_OK(CheckPlan({}, *LocalPlan())); }

TEST(SitePolicyTest, SignedPlan_IsThePlanWithItsAuthor) {
  const TestAuthor author;
  const std::string plan = PlanBytes(LocalScenario());
  const std::shared_ptr<const Plan> opened = OpenPlan(author.Signed(plan));
  EXPECT_EQ(opened->signature().plan, plan);
  EXPECT_EQ(AuthorOf(*opened).text, author.text);
  EXPECT_TRUE(AuthorOf(*opened).good);
  EXPECT_EQ(OpsOf(*opened), OpsOf(*LocalPlan()));
  EXPECT_NE(opened->digest(), LocalPlan()->digest());
  EXPECT_OK(CheckPlan(Pinned(author), *opened));
}

TEST(SitePolicyTest, UnsignedPlan_IsRefusedOnceAnAuthorIsPinned) {
  const TestAuthor author;
  const Status refused = CheckPlan(Pinned(author), *LocalPlan());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("plan 'local' is unsigned")));
  EXPECT_EQ(SubjectOf(refused), "unsigned plan");
}

TEST(SitePolicyTest, AnotherAuthor_IsRefused) {
  const TestAuthor author, another;
  const Status refused = CheckPlan(Pinned(author), *OpenPlan(another.Signed(PlanBytes(LocalScenario()))));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr(another.text + ", an author outside this site's plans.authors")));
  EXPECT_EQ(SubjectOf(refused), "author");
}

TEST(SitePolicyTest, ChangedByte_IsRefused) {
  const TestAuthor author;
  Scenario other = LocalScenario();
  other.client.epochs = 3;
  const std::string bytes = author.Signed(PlanBytes(LocalScenario())), changed = PlanBytes(other);
  // The signature of one plan behind another one.
  const std::shared_ptr<const Plan> plan = OpenPlan(changed + bytes.substr(bytes.size() - 100));
  const Status refused = CheckPlan(Pinned(author), *plan);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the plan was changed")));
  EXPECT_EQ(SubjectOf(refused), "wrong signature");
  EXPECT_FALSE(AuthorOf(*plan).good);
}

TEST(SitePolicyTest, AnyByteOfASignedPlan_CountsForItsSignature) {
  const TestAuthor author;
  const std::string bytes = author.Signed(PlanBytes(LocalScenario()));
  const SitePolicy policy = Pinned(author);
  for (size_t at = 0; at < bytes.size(); at += 97) {
    std::string changed = bytes;
    changed[at] ^= 1;
    const StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(changed);
    EXPECT_FALSE(plan.ok() && CheckPlan(policy, **plan).ok()) << at;
  }
}

TEST(SitePolicyTest, SignatureThatIsNotLast_IsNoPlan) {
  const TestAuthor author;
  const std::string plan = PlanBytes(LocalScenario());
  EXPECT_THAT(Plan::Open(author.Signed(plan) + std::string("\x3A\x06native", 8)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its signature is not the last of its bytes")));
}

TEST(SitePolicyTest, OpThatIsNotAllowed_IsNamed) {
  std::set<std::string, std::less<>> ops = OpsOf(*LocalPlan());
  const auto allowing = [](const auto& names) {
    return Policy(fmt::format("[plans]\nops = {}\n", ToToml(std::vector<std::string>(names.begin(), names.end()))));
  };
  EXPECT_OK(CheckPlan(allowing(ops), *LocalPlan()));
  ASSERT_EQ(ops.erase("MatMul"), 1u);
  const Status refused = CheckPlan(allowing(ops), *LocalPlan());
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("computes with MatMul, which is not")));
  EXPECT_EQ(SubjectOf(refused), "op MatMul");
  EXPECT_FALSE(CheckPlan(Policy("[plans]\nops = []\n"), *LocalPlan()).ok());
}

TEST(SitePolicyTest, ColumnThatIsNotAllowed_IsNamed) {
  EXPECT_OK(CheckPlan(Policy("[plans]\ncolumns = [\"label\", \"image\", \"age\"]\n"), *LocalPlan()));
  const Status refused = CheckPlan(Policy("[plans]\ncolumns = [\"image\"]\n"), *LocalPlan());
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("reads 'label' of each example")));
  EXPECT_EQ(SubjectOf(refused), "column label");
}

TEST(SitePolicyTest, MoreEpochsThanAllowed_AreRefused) {
  EXPECT_OK(CheckPlan(Policy("[plans]\nmax_epochs = 2\n"), *LocalPlan()));
  const Status refused = CheckPlan(Policy("[plans]\nmax_epochs = 1\n"), *LocalPlan());
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("makes 2 passes over the data in a task")));
  EXPECT_EQ(SubjectOf(refused), "2 epochs");
}

TEST(SitePolicyTest, PlanWithWeakerSecureSums_OrNone_IsRefusedByTheKey) {
  const Status none = CheckPlan(Policy("[secure]\nmin_survivors = 2\n"), *LocalPlan());
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no secure aggregation")));
  EXPECT_EQ(SubjectOf(none), "no secure aggregation");
  EXPECT_EQ(CheckPlan(Policy("[secure]\nrequired = true\n"), *LocalPlan()), none);
  EXPECT_OK(CheckPlan(Policy("[secure]\nrequired = false\n"), *LocalPlan()));
  Scenario scenario = LocalScenario();
  scenario.secure = {.protocol = "secagg_plus",
                     .min_survivors = 2,
                     .min_cohort = 5,
                     .max_colluding = 1,
                     .drop_out = 0.1,
                     .least_sum = 2};
  scenario.privacy.clip = 1;
  scenario.server.clients_per_round = 10;
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan::Open(PlanBytes(scenario)));
  EXPECT_THAT(TellPlan(*plan), Contains(::testing::Pair("hides", HasSubstr("in a sum of at least 2 clients by "
                                                                           "secagg_plus; up to 1 clients"))));
  for (const auto& [key, stated] : {std::pair("min_cohort", 5), std::pair("min_survivors", 2),
                                    std::pair("max_colluding", 1), std::pair("least_sum", 2)}) {
    EXPECT_OK(CheckPlan(Policy(fmt::format("[secure]\n{} = {}\n", key, stated)), *plan));
    const Status weaker = CheckPlan(Policy(fmt::format("[secure]\n{} = {}\n", key, stated + 1)), *plan);
    EXPECT_THAT(
        weaker,
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr(fmt::format("has privacy.{} = {}, and this site asks for {}", key, stated, stated + 1))));
    EXPECT_EQ(SubjectOf(weaker), fmt::format("privacy.{}", key));
  }
  EXPECT_OK(CheckPlan(Policy("[secure]\nrequired = true\n"), *plan));
  // The sums without keys hide nothing, whatever bounds they state.
  scenario.secure = {.protocol = "arithmetic", .min_survivors = 2};
  ASSERT_OK_AND_ASSIGN(const auto open, Plan::Open(PlanBytes(scenario)));
  for (const char* const key : {"required = true", "min_survivors = 2"}) {
    EXPECT_THAT(CheckPlan(Policy(fmt::format("[secure]\n{}\n", key)), *open),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no secure aggregation")));
  }
}

TEST(SitePolicyTest, FormerKeyOfSecureSums_IsRefusedByItsNewName) {
  EXPECT_THAT(ParseSitePolicy("[privacy]\nsecure = true\n", "site.toml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the key 'privacy.secure' is 'secure.required' now; write required = true below "
                                 "[secure]")));
}

TEST(SitePolicyTest, RefusedPlan_IsNotMadeIntoPrograms) {
  ArtifactCache cache("", nullptr, [](const Plan&) { return FailedPrecondition("not here"); });
  EXPECT_THAT(cache.Plan(LocalPlan()->digest(), [] { return PlanBytes(LocalScenario()); }),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not here")));
}

TEST(SitePolicyTest, WhatAPlanDoes_IsTold) {
  const auto told = TellPlan(*LocalPlan());
  EXPECT_THAT(told, Contains(std::pair<std::string, std::string>("author", "unsigned")));
  EXPECT_THAT(told, Contains(std::pair<std::string, std::string>(
                        "reads", "of the data set 'train': image (uint8[28,28,1]), label (int64[])")));
  EXPECT_THAT(told, Contains(std::pair<std::string, std::string>("trains", "2 epochs in batches of 10")));
  EXPECT_THAT(told, Contains(std::pair<std::string, std::string>("keeps", "nothing from round to round")));
  EXPECT_THAT(told, Contains(::testing::Pair("sends", HasSubstr("'delta' (7850 numbers as f32)"))));
  Scenario chooses = LocalScenario();
  chooses.algorithm.name = "ifca";
  EXPECT_THAT(
      TellPlan(*LocalPlan(chooses)),
      Contains(::testing::Pair(
          "sends", ::testing::StartsWith("'delta' (7850 numbers as f32, where 'cluster' is 0), 'cluster_1' (7850 "
                                         "numbers as f32, where 'cluster' is 1), the number 'cluster', "))));
}

TEST(EligibilityTest, Hours_AreOfADayAndMayGoOverMidnight) {
  const SitePolicy::When night = Policy("[when]\nhours = [\"20:00-06:00\", \"12:00-13:00\"]\n").when;
  for (const int minute : {0, 5 * 60 + 59, 12 * 60, 20 * 60, 23 * 60 + 59})
    EXPECT_EQ(WhyNotNow(night, {.minute_of_day = minute}), "") << minute;
  for (const int minute : {6 * 60, 13 * 60, 19 * 60 + 59}) {
    EXPECT_EQ(WhyNotNow(night, {.minute_of_day = minute}),
              "this site takes tasks from 20:00 to 06:00 and from 12:00 to 13:00 (when.hours)");
  }
}

TEST(EligibilityTest, BusyMachine_TakesNoTask) {
  const SitePolicy::When when = Policy("[when]\nmax_load = 0.5\nmin_free_megabytes = 4000\n").when;
  EXPECT_EQ(WhyNotNow(when, {.load = 0.5, .available_bytes = 4'000'000'000}), "");
  EXPECT_THAT(WhyNotNow(when, {.load = 0.6, .available_bytes = 4'000'000'000}), HasSubstr("when.max_load"));
  EXPECT_THAT(WhyNotNow(when, {.load = 0, .available_bytes = 3'999'999'999}), HasSubstr("less than 4000 MB"));
  EXPECT_EQ(WhyNotNow({}, LookAtMachine()), "");
  EXPECT_GT(LookAtMachine().available_bytes, 0);
}

TEST(PlannedMemoryTest, Parts_AreWhatTheTaskHolds) {
  EnterWorkerThread();
  const std::shared_ptr<const Plan> plan = LocalPlan();
  PassPrograms programs(plan);
  ASSERT_OK_AND_ASSIGN(const PlannedMemory planned, PlanMemory(programs, TaskKind::kTrain, 1000));
  const int64_t model = static_cast<int64_t>(plan->layout()->arena_bytes());
  EXPECT_EQ(planned.model, model);
  EXPECT_EQ(planned.transfer, std::max<int64_t>(model, 7850 * 4));
  EXPECT_GE(planned.vectors, 2 * model);  // parameters and gradients
  ASSERT_OK_AND_ASSIGN(const auto step, programs.Step(TaskKind::kTrain, 0, 10));
  EXPECT_GE(planned.program, static_cast<int64_t>(step->memory().arena_bytes));
  ASSERT_OK_AND_ASSIGN(const PlannedMemory little, PlanMemory(programs, TaskKind::kTrain, 1));
  EXPECT_LE(little.program, planned.program);
}

TEST(ParseSitePolicyTest, Mistakes_AreNamedWithTheirPlace) {
  const auto refused = [](const std::string& toml, const std::string& fragment) {
    EXPECT_THAT(ParseSitePolicy(toml, "site.toml"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(fragment)));
  };
  refused("[plans\n", "site.toml:1:");
  refused("[plan]\nops = []\n", "there is no section for 'plan'. Did you mean '[plans]'?");
  refused("[plans]\nop = []\n", "site.toml:2:6: there is no key 'plans.op'. Did you mean 'plans.ops'?");
  refused("[plans]\nmax_epochs = 0\n", "plans.max_epochs in site.toml:2:14 must be at least 1, not 0");
  refused("[plans]\nops = \"MatMul\"\n", "plans.ops in site.toml:2:7 must be");
  refused("[plans]\nauthors = [\"ed25519:abc\"]\n", "plans.authors in site.toml:2:11: 'ed25519:abc' is no author");
  refused("plans = 3\n", "there is no section for 'plans'");
  for (const char* hours : {"20-6", "24:00-06:00", "20:60-06:00", "20:00-20:00", "20:00–06:00", "ab:cd-06:00"}) {
    refused(fmt::format("[when]\nhours = [\"{}\"]\n", hours), "takes hours of a day such as \"20:00-06:00\", not");
  }
  refused("[budget]\nniceness = 20\n", "budget.niceness in site.toml:2:12 must be at least 1 and at most 19, not 20");
}

// What a process of its own finds its scheduling to be after TakeLongTurns, in a thread made since: the policy and 100
// times its niceness. -1: it did not come to its end.
int SchedulingAfterLongTurns(int policy_before) {
  const pid_t child = fork();
  if (child == 0) {
    const sched_param none{};
    int found = -1;
    if (setpriority(PRIO_PROCESS, 0, 1) == 0 && sched_setscheduler(0, policy_before, &none) == 0) {
      TakeLongTurns();
      std::thread([&found] { found = sched_getscheduler(0) + 100 * getpriority(PRIO_PROCESS, 0); }).join();
    }
    _exit(found);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(LongTurns, AreOfThreadsMadeSince_AndKeepThePriority) {
  EXPECT_EQ(SchedulingAfterLongTurns(SCHED_OTHER), SCHED_BATCH + 100);
}

TEST(LongTurns, LeaveWhatWhoeverStartedTheProcessChose) {
  EXPECT_EQ(SchedulingAfterLongTurns(SCHED_IDLE), SCHED_IDLE + 100);
}

}  // namespace
}  // namespace rivulet
