// Whole runs with secure aggregation, by agents in threads: every version is that of the run with plain sums, whoever
// drops out at which step; and what the coordinator's files know of a client.
#include <openssl/rand.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>

#include "federated/transport/blob_reader.h"
#include "tests/simulations/whole_runs.h"
#include "tests/testing/secure_identities.h"

namespace rivulet {
namespace {

using testing::ForwardingCoordinator;

constexpr int kSteps = 5, kSumStep = 2;

// What one client meets at one round: its answers to steps from `step` on are lost, and it says that it cannot go on.
struct Loss {
  int64_t round = 0;
  int step = 0;
};

class LossyCoordinator final : public ForwardingCoordinator {
 public:
  LossyCoordinator(CoordinatorApi& api, std::vector<Loss> losses)
      : ForwardingCoordinator(api), losses_(std::move(losses)) {}
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
    for (const Loss& loss : losses_) {
      // The plain run's only step is the sum's.
      const bool step =
          submission.kind == Submission::Kind::kStep ? submission.step == loss.step : loss.step <= kSumStep;
      if (!name || name->round != loss.round || !step) continue;
      api_.Fail(caller, {.task = submission.task}).IgnoreError();  // it may be over already
      return Aborted("lost by the test");
    }
    return ForwardingCoordinator::Submit(caller, submission);
  }

 private:
  const std::vector<Loss> losses_;
};

class SecureRunsTest : public SimulatorTest {
 protected:
  // All of seven clients in each round, so that nobody takes another's place.
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

  // `losses`: by client's number.
  Trace Run(const Scenario& scenario, const std::string& db, const std::map<int64_t, std::vector<Loss>>& losses = {},
            const std::function<std::unique_ptr<CoordinatorApi>(CoordinatorApi&, int64_t)>& wrap = nullptr) {
    Trace trace;
    trace.status = [&]() -> Status {
      RunSetup setup(scenario, {.evaluation_threads = 1});
      RIVULET_ASSIGN_OR_RETURN(const auto evaluator, setup.evaluator());
      RIVULET_ASSIGN_OR_RETURN(const auto train, setup.training_data());
      RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
      TraceRecorder recorder;
      CoordinatorOptions options;
      options.scenario = scenario;
      RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
      options.db_path = Path(db);
      options.evaluator = evaluator.get();
      options.observer = recorder.Observer();
      // On the day of the certificates; it goes on, as pauses between attempts are by it.
      options.now_ms = [begun = std::chrono::steady_clock::now()] {
        return testing::kHarnessNow * 1000 +
               std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun).count();
      };
      options.identity = [identity = testing::IdentityOf(authority_, "coordinator")] { return identity; };
      RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
      std::vector<std::thread> threads;
      for (int64_t i = 0; i < shares->size(); ++i) {
        threads.emplace_back([&, i] {
          AgentOptions agent;
          agent.client_id = shares->NameAt(i);
          agent.data = {BoundData{.dataset = train, .indices = shares->ExamplesOf(i)}};
          agent.states = NewStateStore(FileSystem::Default(), Path(db + ".clients"), false);
          agent.sleep = [](int64_t) { std::this_thread::yield(); };
          agent.secure =
              testing::SecureIdentityOf(authority_, agent.client_id, Path(fmt::format("{}.answered-{}", db, i)));
          const auto lost = losses.find(i);
          LossyCoordinator api(*coordinator, lost == losses.end() ? std::vector<Loss>() : lost->second);
          const auto wrapped = wrap ? wrap(*coordinator, i) : nullptr;
          EXPECT_OK(Agent(wrapped != nullptr ? *wrapped : api, std::move(agent)).Run());
        });
      }
      const Status status = coordinator->Wait();
      for (std::thread& thread : threads) thread.join();
      trace = recorder.trace();
      trace.final_digest = coordinator->model()->ComputeDigest().Hex();
      return status;
    }();
    return trace;
  }

  const testing::TestAuthority& authority_ = testing::SharedAuthority();
};

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

// A coordinator that tells one client of another set of survivors, and gives it all that goes with it.
class LyingCoordinator final : public ForwardingCoordinator {
 public:
  LyingCoordinator(CoordinatorApi& api, int step, std::function<std::string(std::string)> lie)
      : ForwardingCoordinator(api), step_(step), lie_(std::move(lie)) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    RIVULET_ASSIGN_OR_RETURN(PollReply reply, api_.Poll(request));
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
  std::string told_;
  int refusals_ = 0;
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
  options.enforce_deadline = false;
  EXPECT_THAT(Coordinator::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("set it to \"arithmetic\" in simulations")));
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
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("connect the clients to the coordinator")));
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
