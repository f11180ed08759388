// Whole runs with secure aggregation, by agents in threads: every version is that of the run with plain sums, whoever
// drops out at which step; and what the coordinator's files know of a client.
#include "tests/simulations/secure_runs.h"

#include <openssl/rand.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>

#include "federated/transport/blob_reader.h"

namespace rivulet {
namespace {

TEST_F(SecureRunsTest, Versions_AreThoseOfPlainSums) {
  for (const std::string algorithm : {"fedavg", "scaffold"}) {
    SCOPED_TRACE(algorithm);
    const Trace plain = Run(Plain(algorithm), algorithm + "-plain.sqlite");
    ASSERT_OK(plain.status);
    const Trace secure = Run(Secure(Plain(algorithm)), algorithm + "-secure.sqlite");
    ASSERT_OK(secure.status);
    ASSERT_THAT(plain.digests, SizeIs(3));
    EXPECT_EQ(secure.digests, plain.digests);
    EXPECT_EQ(secure.central, plain.central);
  }
}

TEST_F(SecureRunsTest, WordsOf32Bits_AreThoseOfPlainSums) {
  Scenario scenario = Plain();
  scenario.server.weights = "uniform";
  scenario.server.sum_bits = 32;
  const Trace plain = Run(scenario, "plain.sqlite"), secure = Run(Secure(scenario), "secure.sqlite");
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
}

// A quarter of the values, at places that all clients of a version share, in a quarter of the words.
TEST_F(SecureRunsTest, ValuesAtSharedPlaces_AreThoseOfPlainSums_InFewerWords) {
  Scenario scenario = Plain();
  scenario.update.codec = "random_k_shared";
  scenario.update.settings = {{"fraction", 0.25}};
  scenario.server.value_bits = 2;  // the clip of 0.75, times 4
  const Trace plain = Run(scenario, "plain.sqlite"), secure = Run(Secure(scenario), "secure.sqlite");
  ASSERT_OK(plain.status);
  ASSERT_OK(secure.status);
  ASSERT_THAT(plain.digests, SizeIs(3));
  EXPECT_EQ(secure.digests, plain.digests);
  ASSERT_OK(Run(Secure(Plain()), "whole.sqlite").status);
  const auto sent = [&](const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    const auto rows = (*history)->ClientRounds((*history)->ResolveRun("latest")->run_id);
    EXPECT_OK(rows);
    int64_t bytes = 0;
    for (const ClientRoundRow& row : *rows) bytes += row.bytes_up;
    return bytes;
  };
  EXPECT_LT(sent("secure.sqlite"), sent("whole.sqlite") / 3);
}

// Noise by the clients is in their words before the masks are: the versions of sums without keys, charged for the
// smallest sum that the protocol lets anybody read.
TEST_F(SecureRunsTest, NoiseOfClients_UnderMasks_IsThatOfArithmeticSums) {
  Scenario scenario = Plain("dp_fedavg");
  scenario.algorithm.settings = {
      {"noise_multiplier", 2.0}, {"noise_source", std::string("seeded")}, {"noise", std::string("distributed")}};
  scenario.secure.min_survivors = 4;
  scenario.secure.least_sum = 4;
  scenario.secure.max_colluding = 1;
  Scenario arithmetic = scenario;
  arithmetic.secure.protocol = "arithmetic";
  for (const int64_t bits : {64, 32}) {
    SCOPED_TRACE(bits);
    scenario.server.sum_bits = arithmetic.server.sum_bits = bits;
    const Trace without_keys = Simulate(arithmetic, 2, fmt::format("arithmetic-{}.sqlite", bits));
    ASSERT_OK(without_keys.status);
    ASSERT_THAT(without_keys.digests, SizeIs(3));
    const std::string deployed = fmt::format("deployed-{}.sqlite", bits);
    const Trace agents = Run(Secure(scenario), deployed);
    ASSERT_OK(agents.status);
    EXPECT_EQ(agents.digests, without_keys.digests);
    const std::string simulated = fmt::format("simulated-{}.sqlite", bits);
    const Trace sites = Simulate(Secure(scenario), 3, simulated);
    ASSERT_OK(sites.status);
    EXPECT_EQ(sites.digests, without_keys.digests);
    for (const std::string& db : {deployed, simulated})
      EXPECT_EQ(SpendOf(db), SpendOf(fmt::format("arithmetic-{}.sqlite", bits)));
  }
}

// The clip of a version follows a count that only words have.
TEST_F(SecureRunsTest, ClipThatFollowsTheNorms_UnderMasks_IsThatOfArithmeticSums) {
  for (const std::string by : {"central", "distributed"}) {
    SCOPED_TRACE(by);
    Scenario scenario = Plain("dp_fedavg");
    scenario.algorithm.settings = {{"noise_multiplier", 0.5},
                                   {"noise_source", std::string("seeded")},
                                   {"noise", by},
                                   {"clip_quantile", 0.5},
                                   {"clip_count_stddev", 1.0}};
    scenario.secure.min_survivors = scenario.secure.least_sum = 4;
    Scenario arithmetic = scenario;
    arithmetic.secure.protocol = "arithmetic";
    const Trace without_keys = Simulate(arithmetic, 2, by + "-arithmetic.sqlite");
    ASSERT_OK(without_keys.status);
    const Trace agents = Run(Secure(scenario), by + "-deployed.sqlite");
    ASSERT_OK(agents.status);
    EXPECT_EQ(agents.digests, without_keys.digests);
    EXPECT_EQ(Simulate(Secure(scenario), 3, by + "-simulated.sqlite").digests, without_keys.digests);
    EXPECT_EQ(SpendOf(by + "-deployed.sqlite"), SpendOf(by + "-arithmetic.sqlite"));
  }
}

// Keys of the system's generator: nobody repeats the run, and each round is charged all the same.
TEST_F(SecureRunsTest, SecretNoiseOfClients_IsOtherwiseEachTime_AndCharged) {
  Scenario scenario = Plain("dp_fedavg");
  scenario.algorithm.settings = {{"noise_multiplier", 2.0}, {"noise", std::string("distributed")}};
  scenario.secure.least_sum = 4;
  const Trace one = Run(Secure(scenario), "one.sqlite"), other = Run(Secure(scenario), "other.sqlite");
  ASSERT_OK(one.status);
  ASSERT_OK(other.status);
  EXPECT_NE(one.digests, other.digests);
  EXPECT_EQ(SpendOf("one.sqlite"), SpendOf("other.sqlite"));
  EXPECT_THAT(SpendOf("one.sqlite"), SizeIs(3));
}

// Before the sum is closed a client's update is not in it; afterwards it is, whatever becomes of the client.
TEST_F(SecureRunsTest, ClientLostAtAnyStep_IsInTheSumOrNot_AsInThePlainRunOfTheSameSurvivors) {
  const Trace all = Run(Plain(), "all.sqlite");
  const Trace without = Run(Plain(), "without.sqlite", {{3, {{.round = 2, .step = kSumStep}}}});
  ASSERT_OK(all.status);
  ASSERT_OK(without.status);
  ASSERT_NE(all.digests, without.digests);
  for (int step = 1; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const Trace secure = Run(Secure(Plain()), fmt::format("step-{}.sqlite", step), {{3, {{.round = 2, .step = step}}}});
    ASSERT_OK(secure.status);
    EXPECT_EQ(secure.digests, step <= kSumStep ? without.digests : all.digests);
  }
}

// Seven clients, five of whom give a secret.
TEST_F(SecureRunsTest, PairsLostAtUnlikeSteps_AreThePlainRunOfTheSameSurvivors) {
  for (const auto& [one, other] : {std::pair(1, 2), std::pair(2, 3), std::pair(1, 4), std::pair(3, 4)}) {
    SCOPED_TRACE(fmt::format("{} and {}", one, other));
    std::map<int64_t, std::vector<Loss>> plainly;
    if (one <= kSumStep) plainly[2] = {{.round = 1, .step = kSumStep}};
    if (other <= kSumStep) plainly[5] = {{.round = 1, .step = kSumStep}};
    const Trace plain = Run(Plain(), fmt::format("plain-{}-{}.sqlite", one, other), plainly);
    const Trace secure = Run(Secure(Plain()), fmt::format("secure-{}-{}.sqlite", one, other),
                             {{2, {{.round = 1, .step = one}}}, {5, {{.round = 1, .step = other}}}});
    ASSERT_OK(secure.status);
    EXPECT_EQ(secure.digests, plain.digests);
  }
}

// Another process of the client has none of its secrets: its task is over where its keys were announced, and in the sum
// where its words were. At step 0 it is done anew.
TEST_F(SecureRunsTest, ClientKilledAtAnyStep_IsInTheSumOrNot_AsInThePlainRunOfTheSameSurvivors) {
  const Trace all = Run(Plain(), "all.sqlite");
  const Trace without = Run(Plain(), "without.sqlite", {{3, {{.round = 2, .step = kSumStep}}}});
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const Trace secure =
        RunWithDeaths(Secure(Plain()), fmt::format("step-{}.sqlite", step), {{3, {.round = 2, .step = step}}}, true);
    ASSERT_OK(secure.status);
    EXPECT_EQ(secure.digests, step == 1 || step == kSumStep ? without.digests : all.digests);
  }
}

// One before its words are sent, the other behind; neither comes back.
TEST_F(SecureRunsTest, TwelveClients_TwoOfWhomDieInARound_AreThePlainRunOfTheSameSurvivors) {
  Scenario scenario = Plain();
  scenario.data.partition.clients = 12;
  scenario.server.clients_per_round = 12;
  scenario.server.min_reports = 10;
  const Trace plain = Run(
      scenario, "plain.sqlite",
      {{4, {{.round = 2, .step = kSumStep}, {.round = 3, .step = kSumStep}}}, {9, {{.round = 3, .step = kSumStep}}}});
  ASSERT_OK(plain.status);
  scenario.server.lease_seconds = 4;
  const Trace secure = RunWithDeaths(Secure(scenario), "secure.sqlite",
                                     {{4, {.round = 2, .step = 1}}, {9, {.round = 2, .step = 3}}}, false);
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
}

// Figures are summed as updates are, by a cohort of its own, beside the training of the next version.
TEST_F(SecureRunsTest, Measurements_AreThoseOfPlainSums_AndOfNoSingleClient) {
  Scenario scenario = Plain();
  scenario.evaluation.federated_every = 1;
  scenario.evaluation.federated_clients = 5;
  const Trace plain = Run(scenario, "plain.sqlite"), secure = Run(Secure(scenario), "secure.sqlite");
  ASSERT_OK(plain.status);
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
  // A version whose turn does not come before the next is due is left out, and the last one never is.
  Scenario simulated = scenario;
  simulated.server.sum_bits = 64;
  ASSERT_OK(Simulate(simulated, 2, "simulated.sqlite").status);
  const std::vector<std::string> all = SummedMeasures(Path("simulated.sqlite")),
                                 summed = SummedMeasures(Path("secure.sqlite"));
  ASSERT_THAT(all, SizeIs(3 * 2));
  EXPECT_THAT(all, ::testing::IsSupersetOf(summed));
  EXPECT_THAT(summed, ::testing::Contains(all.back()));
  EXPECT_GT(MeasuredOfSingleClients(Path("simulated.sqlite")), 0);
  EXPECT_EQ(MeasuredOfSingleClients(Path("secure.sqlite")), 0);
}

TEST_F(SecureRunsTest, ClientLostAsItMeasures_IsInTheSumOrNot_AsInThePlainRun) {
  Scenario scenario = Plain();
  scenario.run.rounds = 1;
  scenario.evaluation.federated_every = 1;
  ASSERT_OK(Run(scenario, "all.sqlite").status);
  ASSERT_OK(
      Run(scenario, "without.sqlite", {{3, {{.round = 1, .step = kSumStep, .kind = TaskKind::kEvaluate}}}}).status);
  const std::vector<std::string> all = SummedMeasures(Path("all.sqlite")),
                                 without = SummedMeasures(Path("without.sqlite"));
  ASSERT_NE(all, without);
  for (int step = 1; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const std::string db = fmt::format("step-{}.sqlite", step);
    ASSERT_OK(Run(Secure(scenario), db, {{3, {{.round = 1, .step = step, .kind = TaskKind::kEvaluate}}}}).status);
    EXPECT_EQ(SummedMeasures(Path(db)), step <= kSumStep ? without : all);
  }
}

// Examples that can be read once something has happened.
class GatedDataset final : public Dataset {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  GatedDataset(std::shared_ptr<const Dataset> data, Gate& gate) : data_(std::move(data)), gate_(gate) {}
  int64_t size() const override { return data_->size(); }
  std::string Where(int64_t index) const override { return data_->Where(index); }
  Status Read(int64_t index, std::string& buffer) const override {
    std::unique_lock lock(gate_.mutex);
    if (!gate_.opened.wait_for(lock, std::chrono::minutes(2), [this] { return gate_.open; })) {
      return DeadlineExceeded("nothing opened this test's data");
    }
    return data_->Read(index, buffer);
  }

 private:
  const std::shared_ptr<const Dataset> data_;
  Gate& gate_;
};

// No client can read an example before its shares have come: it would never train if it announced its keys later.
TEST_F(SecureRunsTest, FirstTwoSteps_AreBesideTheTraining) {
  class Opener final : public ForwardingCoordinator {
   public:
    Opener(CoordinatorApi& api, GatedDataset::Gate& gate) : ForwardingCoordinator(api), gate_(gate) {}
    StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
      if (submission.step == 1) {
        const std::lock_guard lock(gate_.mutex);
        gate_.open = true;
        gate_.opened.notify_all();
      }
      return ForwardingCoordinator::Submit(caller, submission);
    }

   private:
    GatedDataset::Gate& gate_;
  };
  Scenario scenario = Plain();
  scenario.run.rounds = 1;
  const Trace plain = Run(scenario, "plain.sqlite");
  std::array<GatedDataset::Gate, 7> gates;
  Deployed changed = WithCertificates("secure.sqlite");
  changed.agent = [&, with = changed.agent](AgentOptions& agent, int64_t i) {
    with(agent, i);
    agent.data[0].dataset = std::make_shared<GatedDataset>(agent.data[0].dataset, gates.at(static_cast<size_t>(i)));
  };
  changed.between = [&](CoordinatorApi& api, int64_t i) {
    return std::make_unique<Opener>(api, gates.at(static_cast<size_t>(i)));
  };
  const Trace secure = Deploy(Secure(scenario), "secure.sqlite", changed);
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
}

// The attempt that was cut off is over: no client answers its tasks again, and none of the next process bears a name
// that this one or one before has given. So it is killed twice at the same step.
TEST_F(SecureRunsTest, CoordinatorKilledAtAnyStep_BeginsAnotherAttempt_AndTheRunIsThePlainOne) {
  const Trace plain = Run(Plain(), "plain.sqlite");
  ASSERT_OK(plain.status);
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    Scenario scenario = Secure(Plain());
    scenario.run.durability = "round";
    const std::string db = fmt::format("step-{}.sqlite", step);
    const auto run = [&](bool resumed, bool killed) {
      Deployed changed = WithCertificates(db);
      changed.coordinator = [with = changed.coordinator, resumed](CoordinatorOptions& options) {
        with(options);
        if (resumed) options.resume = "latest";
      };
      class Killer final : public ForwardingCoordinator {
       public:
        Killer(CoordinatorApi& api, int at) : ForwardingCoordinator(api), at_(at) {}
        StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
          const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
          if (name && name->round == 2 && submission.step == at_) kill(getpid(), SIGKILL);
          return ForwardingCoordinator::Submit(caller, submission);
        }

       private:
        const int at_;
      };
      changed.between = [&](CoordinatorApi& api, int64_t) -> std::unique_ptr<CoordinatorApi> {
        return killed ? std::make_unique<Killer>(api, step) : nullptr;
      };
      return Deploy(scenario, db, changed);
    };
    for (const bool resumed : {false, true}) {
      const pid_t child = fork();
      if (child == 0) _exit(run(resumed, true).status.ok() ? 0 : 1);
      int status = 0;
      waitpid(child, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status)) << "not killed";
    }
    const Trace rest = run(true, false);
    ASSERT_OK(rest.status);
    EXPECT_EQ(rest.final_digest, plain.final_digest);
    // Of round 1 too, where its rows were not written in time.
    EXPECT_THAT(rest.ends, ::testing::Each(HasSubstr(" a3")));
  }
}

// What the coordinator receives says nothing of one client but its masked words, whether or not its site asks for that.
TEST_F(SecureRunsTest, PollsSayOneExample_AndAnswersSayNothingElse) {
  struct Counts {
    std::atomic<int> polls = 0, answers = 0;
  } counts;
  class Recorder final : public ForwardingCoordinator {
   public:
    Recorder(CoordinatorApi& api, Counts& counts) : ForwardingCoordinator(api), counts_(counts) {}
    StatusOr<PollReply> Poll(const PollRequest& request) override {
      for (const DatasetOffer& offer : request.capabilities.datasets) EXPECT_EQ(offer.examples, 1);
      ++counts_.polls;
      return ForwardingCoordinator::Poll(request);
    }
    StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
      EXPECT_EQ(submission.kind, Submission::Kind::kStep);
      EXPECT_EQ(submission.measured, TaskResult{});
      ++counts_.answers;
      return ForwardingCoordinator::Submit(caller, submission);
    }

   private:
    Counts& counts_;
  };
  Deployed changed = WithCertificates("secure.sqlite", false);
  changed.between = [&](CoordinatorApi& api, int64_t) { return std::make_unique<Recorder>(api, counts); };
  ASSERT_OK(Deploy(Secure(Plain()), "secure.sqlite", changed).status);
  EXPECT_GE(counts.polls, 7 * 3 * kSteps);
  EXPECT_GE(counts.answers, 7 * 3 * (kSteps - 1));  // a sum is read before the last of all share secrets
}

// Where sums are plain the numbers are stated, from the first task on, or before where the run asks for them.
TEST_F(SecureRunsTest, PollsOfAPlainRun_SayTheNumbersOfExamples) {
  class Recorder final : public ForwardingCoordinator {
   public:
    using ForwardingCoordinator::ForwardingCoordinator;
    StatusOr<PollReply> Poll(const PollRequest& request) override {
      last_ = request.capabilities.datasets.at(0).examples;
      return ForwardingCoordinator::Poll(request);
    }
    ~Recorder() override { EXPECT_GT(last_, 1); }

   private:
    std::atomic<int64_t> last_ = 0;
  };
  for (const int64_t least : {0, 5}) {
    SCOPED_TRACE(least);
    Scenario scenario = Plain();
    scenario.selection.min_examples = least;
    Deployed changed = WithCertificates("plain.sqlite", false);
    changed.between = [](CoordinatorApi& api, int64_t) { return std::make_unique<Recorder>(api); };
    ASSERT_OK(Deploy(scenario, fmt::format("plain-{}.sqlite", least), changed).status);
  }
}

// Three of seven: no four others make the five that a secret needs. The next attempt has all of them again.
TEST_F(SecureRunsTest, TooManyLost_AbandonTheAttempt_AndTheNextOneIsMade) {
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 1;
  class Once final : public ForwardingCoordinator {
   public:
    using ForwardingCoordinator::ForwardingCoordinator;
    StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
      const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
      if (name && name->attempt == 1 && submission.step == kSteps - 1) {
        api_.Fail(caller, {.task = submission.task}).IgnoreError();  // it may be over already
        return Aborted("lost by the test");
      }
      return ForwardingCoordinator::Submit(caller, submission);
    }
  };
  const Trace run = Run(scenario, "run.sqlite", {}, [](CoordinatorApi& api, int64_t client) {
    return client < 3 ? std::make_unique<Once>(api) : std::unique_ptr<CoordinatorApi>();
  });
  ASSERT_OK(run.status);
  ASSERT_THAT(run.ends, SizeIs(2));
  EXPECT_THAT(run.ends[0], HasSubstr("abandon r1 a1: too few answered step 4"));
  EXPECT_THAT(run.ends[1], HasSubstr("commit r1 a2"));
}

TEST_F(SecureRunsTest, NothingOfOneClient_IsInTheHistory) {
  ASSERT_OK(Run(Secure(Plain()), "secure.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("secure.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> rows, history->ClientRounds(run.run_id));
  ASSERT_THAT(rows, SizeIs(21));
  for (const ClientRoundRow& row : rows) {
    EXPECT_EQ(row.status, "folded");
    EXPECT_FALSE(row.examples.has_value());
    EXPECT_FALSE(row.steps.has_value());
    EXPECT_FALSE(row.train_loss.has_value());
    EXPECT_FALSE(row.update_norm.has_value());
    EXPECT_FALSE(row.train_seconds.has_value());
  }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// Everything that OpenSSL draws while this lives: keys, seeds, shares' coefficients. One at a time.
class DrawnSecrets {
 public:
  DrawnSecrets() {
    drawn_.clear();
    static const RAND_METHOD method = {nullptr, Draw, nullptr, nullptr, Draw, [] { return 1; }};
    RAND_set_rand_method(&method);
  }
  ~DrawnSecrets() { RAND_set_rand_method(nullptr); }
  // Of 32 bytes, without the first and the last, some of whose bits a private key fixes.
  static std::vector<std::string> Keys() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (const std::string& bytes : drawn_) {
      if (bytes.size() == 32) keys.push_back(bytes.substr(1, 30));
    }
    return keys;
  }

 private:
  static int Draw(unsigned char* bytes, int count) {
    std::random_device system;
    for (int i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(system());
    const std::lock_guard lock(mutex_);
    drawn_.emplace_back(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
    return 1;
  }
  static inline std::mutex mutex_;
  static inline std::vector<std::string> drawn_;
};
#pragma GCC diagnostic pop

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

TEST_F(SecureRunsTest, NoKeyOrSeed_IsInAnyFile) {
  (void)testing::IdentityOf(authority_, "warm");  // certificates are drawn otherwise, and are no secrets of a task
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 2;
  const DrawnSecrets secrets;
  ASSERT_OK(Run(scenario, "secure.sqlite").status);
  const std::vector<std::string> keys = DrawnSecrets::Keys();
  // Two keys and a seed a client and round.
  ASSERT_GE(keys.size(), 2u * 7 * 3);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(""))) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    ++files;
    for (const std::string& key : keys) {
      EXPECT_EQ(bytes.find(key), std::string::npos) << entry.path();
      EXPECT_EQ(bytes.find(Hex(key)), std::string::npos) << entry.path();
    }
  }
  EXPECT_GE(files, 3u);
}

TEST_F(SecureRunsTest, HistorySaysWhomTheSumsProtect) {
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 1;
  scenario.secure.max_colluding = 1;
  ASSERT_OK(Run(scenario, "secure.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("secure.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<EventRow> events, history->Events(run.run_id));
  const bool told = std::ranges::any_of(events, [](const EventRow& event) {
    return event.message ==
           "secure aggregation by secagg_plus: in a cohort of 7 each client has 6 neighbours, of which 5 give its "
           "secret; a lying coordinator with 1 colluding clients learns no sum of fewer than 4 honest ones";
  });
  EXPECT_TRUE(told);
}

// A sum of six and one of seven: the difference is one client.
TEST_F(SecureRunsTest, SumsThatDifferByOneClient_AreWarnedOf) {
  const auto warnings = [&](const std::string& db) {
    const auto history = History::Open(Path(db), History::Access::kReadOnly);
    EXPECT_OK(history);
    std::vector<std::string> found;
    const StatusOr<std::vector<EventRow>> events = (*history)->Events((*history)->ResolveRun("latest")->run_id);
    EXPECT_OK(events);
    for (const EventRow& event : *events) {
      if (event.message.find("differ by 1 client, fewer") == std::string::npos) continue;
      EXPECT_EQ(event.level, "warning");
      found.push_back(fmt::format("r{}", event.round.value_or(0)));
    }
    return found;
  };
  ASSERT_OK(Run(Secure(Plain()), "all.sqlite").status);
  EXPECT_THAT(warnings("all.sqlite"), IsEmpty());
  ASSERT_OK(Run(Secure(Plain()), "one.sqlite", {{3, {{.round = 2, .step = kSumStep}}}}).status);
  EXPECT_THAT(warnings("one.sqlite"), ElementsAre("r2", "r3"));
}

// A coordinator that tells one client of another set of survivors, and gives it all that goes with it.
class LyingCoordinator final : public ForwardingCoordinator {
 public:
  LyingCoordinator(CoordinatorApi& api, int step, std::function<std::string(std::string)> lie)
      : ForwardingCoordinator(api), step_(step), lie_(std::move(lie)) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    RIVULET_ASSIGN_OR_RETURN(PollReply reply, api_.Poll(request));
    const std::lock_guard lock(mutex_);
    for (Task& task : reply.tasks) {
      for (NamedBlob& input : task.inputs) {
        if (input.name != "step" || task.step != step_) continue;
        RIVULET_ASSIGN_OR_RETURN(const auto reader, api_.Fetch(request.caller, input.id, 0));
        std::string bytes;
        for (;;) {
          RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
          if (chunk.empty()) break;
          bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
        }
        told_ = lie_(std::move(bytes));
        input.id.digest = Sha256Of(told_);
      }
    }
    return reply;
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    const std::lock_guard lock(mutex_);
    if (told_.empty() || blob.digest != Sha256Of(told_)) return ForwardingCoordinator::Fetch(caller, blob, offset);
    return std::make_unique<BlobReader>(
        Blob{std::ssize(told_),
             [this](int64_t from) { return std::as_bytes(std::span(told_)).subspan(static_cast<size_t>(from)); }},
        offset, nullptr);
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    EXPECT_EQ(failure.code, TaskFailure::Code::kNotWilling);
    EXPECT_EQ(failure.subject, "secure aggregation");
    ++refusals_;
    return ForwardingCoordinator::Fail(caller, failure);
  }
  int refusals() const { return refusals_; }

 private:
  const int step_;
  const std::function<std::string(std::string)> lie_;
  std::mutex mutex_;  // a client has two threads
  std::string told_;
  std::atomic<int> refusals_ = 0;
};

TEST_F(SecureRunsTest, ClientThatIsLiedTo_RefusesTheStep_AndTheOthersSumGoesOn) {
  // By step: a cohort cut short, shares of somebody else, survivors without this client. A lie at the last step may
  // come when the sum is read already; lying_coordinator_test.cc has those.
  const std::map<int, std::function<std::string(std::string)>> lies = {
      {1, [](std::string input) { return input.substr(0, input.size() / 2); }},
      {2,
       [](std::string input) {
         input[input.size() / 2] = static_cast<char>(input[input.size() / 2] ^ 1);
         return input;
       }},
      {3, [](std::string input) { return std::string(input.size(), '\0'); }},
  };
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 1;
  for (const auto& [step, lie] : lies) {
    SCOPED_TRACE(step);
    std::atomic<int> refusals = 0;
    class Counted final : public ForwardingCoordinator {
     public:
      Counted(CoordinatorApi& api, int at, std::function<std::string(std::string)> lie, std::atomic<int>& refusals)
          : ForwardingCoordinator(api), lying_(api, at, std::move(lie)), refusals_(refusals) {}
      ~Counted() override { refusals_ += lying_.refusals(); }
      StatusOr<PollReply> Poll(const PollRequest& request) override { return lying_.Poll(request); }
      StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
        return lying_.Fetch(caller, blob, offset);
      }
      Status Fail(const Caller& caller, const TaskFailure& failure) override { return lying_.Fail(caller, failure); }

     private:
      LyingCoordinator lying_;
      std::atomic<int>& refusals_;
    };
    const Trace run =
        Run(scenario, fmt::format("lie-{}.sqlite", step), {},
            [&, step = step, lie = lie](CoordinatorApi& api, int64_t client) -> std::unique_ptr<CoordinatorApi> {
              if (client != 4) return nullptr;
              return std::make_unique<Counted>(api, step, lie, refusals);
            });
    ASSERT_OK(run.status);
    EXPECT_EQ(refusals, 1);
  }
}

// A list travels with the cohort. Its number is at least the last one seen, whoever sent that, and another process of
// the client knows it too.
TEST_F(SecureRunsTest, RevocationLists_TravelWithTheCohort_AndNeverGoBack) {
  Scenario scenario = Secure(Plain());
  scenario.run.rounds = 1;
  scenario.server.max_attempts = 1;
  const std::shared_ptr<const NodeIdentity> own = testing::IdentityOf(authority_, "client-00003");
  std::mutex mutex;
  std::set<std::string> reasons;
  const auto run = [&](const std::string& db, int64_t number) {
    Deployed changed = WithCertificates(db);
    changed.coordinator = [&, with = changed.coordinator](CoordinatorOptions& options) {
      with(options);
      const auto plain = options.identity();
      auto identity = std::make_shared<NodeIdentity>();
      identity->name = plain->name;
      identity->hosts = plain->hosts;
      identity->serial = plain->serial;
      identity->validity = plain->validity;
      identity->certificate_pem = plain->certificate_pem;
      identity->key_pem = plain->key_pem;
      identity->authority_pem = plain->authority_pem;
      identity->authority = ReadCertificate(plain->authority_pem, "the authority").value();
      identity->revoked_pem = authority_.RevocationListPem({"0a"}, number);
      identity->revoked = ReadRevocationList(identity->revoked_pem, "a list", identity->authority).value();
      options.identity = [identity] { return identity; };
    };
    changed.agent = [&, with = changed.agent](AgentOptions& agent, int64_t i) {
      with(agent, i);
      auto secure = std::make_shared<SecureIdentity>(*agent.secure);
      secure->revocations = std::make_shared<SeenRevocations>(FileSystem::Default(), Path(fmt::format("seen-{}", i)));
      agent.secure = secure;
      agent.observer.on_report = [&](const Task&, const TaskReport& report) {
        const std::lock_guard lock(mutex);
        reasons.insert(report.reason);
      };
    };
    return Deploy(scenario, db, changed);
  };
  EXPECT_OK(run("first.sqlite", 5).status);
  SeenRevocations again(FileSystem::Default(), Path("seen-3"));
  ASSERT_TRUE(again.Newest(*own).has_value());
  EXPECT_EQ(again.Newest(*own)->number, 5);
  EXPECT_OK(run("same.sqlite", 5).status);
  // Some say that the sum was read without their last step.
  EXPECT_THAT(reasons, ::testing::Each(::testing::Not(HasSubstr("has the number"))));
  EXPECT_THAT(run("older.sqlite", 4).status, StatusIs(absl::StatusCode::kAborted, HasSubstr("round 1 failed")));
  EXPECT_THAT(reasons, ::testing::Contains(HasSubstr("has the number 4, and this client has seen 5")));
}

TEST_F(SecureRunsTest, ClientWithoutACertificate_TakesNoPart) {
  Scenario scenario = Secure(Plain());
  scenario.server.max_attempts = 1;
  RunSetup setup(scenario, {.evaluation_threads = 1});
  CoordinatorOptions options;
  options.scenario = scenario;
  ASSERT_OK_AND_ASSIGN(options.plan, setup.plan());
  options.db_path = Path("none.sqlite");
  EXPECT_THAT(Coordinator::Create(options), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                     HasSubstr("give the coordinator its folder of certificates")));
}

// The same machines in one process: sites play their clients' halves, whoever has which client. Sums are those of plain
// and of arithmetic ones, also where a round takes a part of the clients, where they keep state, and at 32 bits.
TEST_F(SecureRunsTest, Simulated_IsThePlainRun_ByAnyNumberOfWorkers) {
  for (const std::string algorithm : {"fedavg", "scaffold"}) {
    Scenario scenario = Plain(algorithm);
    scenario.server.clients_per_round = 5;
    scenario.evaluation.federated_every = 2;
    if (algorithm == "fedavg") {
      scenario.server.weights = "uniform";
      scenario.server.sum_bits = 32;
    }
    const Trace plain = Simulate(scenario, 2, algorithm + "-plain.sqlite");
    ASSERT_OK(plain.status);
    Scenario arithmetic = scenario;
    arithmetic.secure.protocol = "arithmetic";
    EXPECT_EQ(Simulate(arithmetic, 2, algorithm + "-arithmetic.sqlite").digests, plain.digests);
    const std::vector<std::string> measured = SummedMeasures(Path(algorithm + "-plain.sqlite"));
    EXPECT_THAT(measured, SizeIs(2 * 2));
    EXPECT_EQ(SummedMeasures(Path(algorithm + "-arithmetic.sqlite")), measured);
    for (const int workers : {1, 2, 3, 9}) {
      SCOPED_TRACE(fmt::format("{} by {} workers", algorithm, workers));
      const Trace secure = Simulate(Secure(scenario), workers, fmt::format("{}-{}.sqlite", algorithm, workers));
      ASSERT_OK(secure.status);
      EXPECT_EQ(secure.digests, plain.digests);
      EXPECT_EQ(secure.central, plain.central);
      EXPECT_EQ(SummedMeasures(Path(fmt::format("{}-{}.sqlite", algorithm, workers))), measured);
      EXPECT_EQ(MeasuredOfSingleClients(Path(fmt::format("{}-{}.sqlite", algorithm, workers))), 0);
    }
  }
}

// From 100 members on the graph is not complete.
TEST_F(SecureRunsTest, SimulatedCohortOf120_IsThePlainRun) {
  Scenario scenario = Plain();
  scenario.run.rounds = 1;
  scenario.data.partition.clients = 120;
  scenario.server.clients_per_round = 120;
  scenario.secure.drop_out = 0.02;  // six neighbours
  const Trace plain = Simulate(scenario, 3, "plain.sqlite"), secure = Simulate(Secure(scenario), 3, "secure.sqlite");
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
}

// An update beyond the bound never becomes words: its client fails before the cohort is formed, and another is drawn.
TEST_F(SecureRunsTest, SimulatedClientWithoutWords_IsReplaced_AsInAPlainSimulation) {
  Scenario scenario = Plain();
  scenario.server.clients_per_round = 5;
  scenario.attack.name = "scaling";
  scenario.attack.settings = {{"scale", 1e6}};
  const Trace plain = Simulate(scenario, 2, "plain.sqlite"), secure = Simulate(Secure(scenario), 2, "secure.sqlite");
  ASSERT_OK(plain.status);
  ASSERT_OK(secure.status);
  EXPECT_EQ(secure.digests, plain.digests);
}

TEST_F(SecureRunsTest, SimulatedRunThatIsResumed_GoesOnWithTheSameCohorts) {
  Scenario scenario = Plain();
  scenario.run.rounds = 8;
  scenario.server.clients_per_round = 4;
  const Trace plain = Simulate(scenario, 2, "plain.sqlite");
  ASSERT_FALSE(Simulate(Secure(scenario), 2, "secure.sqlite", "", 1).status.ok());
  const Trace rest = Simulate(Secure(scenario), 2, "secure.sqlite", "latest");
  ASSERT_OK(rest.status);
  EXPECT_EQ(rest.final_digest, plain.final_digest);
}

TEST_F(SecureRunsTest, NothingOfOneSimulatedClient_IsInTheHistory) {
  ASSERT_OK(Simulate(Secure(Plain()), 2, "secure.sqlite").status);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("secure.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> rows, history->ClientRounds(run.run_id));
  ASSERT_THAT(rows, SizeIs(21));
  for (const ClientRoundRow& row : rows) {
    EXPECT_EQ(row.status, "folded");
    EXPECT_FALSE(row.examples || row.train_loss || row.update_norm || row.train_seconds) << row.client_id;
  }
}

// Steps go from client to coordinator: a site that folds for others would read their words.
TEST_F(SecureRunsTest, SitesOfOthers_AreRefused) {
  Scenario scenario = Secure(Plain());
  RunSetup setup(scenario, {.evaluation_threads = 1});
  CoordinatorOptions options;
  options.scenario = scenario;
  ASSERT_OK_AND_ASSIGN(options.plan, setup.plan());
  options.db_path = Path("sites.sqlite");
  options.identity = [identity = testing::IdentityOf(authority_, "coordinator")] { return identity; };
  ASSERT_OK_AND_ASSIGN(const auto coordinator, Coordinator::Create(std::move(options)));
  EXPECT_THAT(coordinator->Poll({.caller = {.name = "s"}, .serves = {.kind = Serves::Kind::kAny}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("connect the clients themselves")));
}

TEST_F(SecureRunsTest, RevealedTask_IsAnsweredOnce_AlsoByAnotherProcess) {
  AnsweredTasks answered(FileSystem::Default(), Path("answered"));
  EXPECT_FALSE(answered.Contains("run-r1-a1-c-0"));
  ASSERT_OK(answered.Add("run-r1-a1-c-0"));
  AnsweredTasks again(FileSystem::Default(), Path("answered"));
  EXPECT_TRUE(again.Contains("run-r1-a1-c-0"));
  EXPECT_FALSE(again.Contains("run-r1-a2-c-0"));
}

}  // namespace
}  // namespace rivulet
