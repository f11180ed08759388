// Secure aggregation through aggregators: they pass on steps and add masked words, and every version is the plain run's
// of the same clients.
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "aggregator/aggregator.h"
#include "tests/simulations/secure_runs.h"

namespace rivulet {
namespace {

// An aggregator that may be killed and started again while clients call it.
class RestartedAggregator final : public CoordinatorApi {
 public:
  RestartedAggregator(CoordinatorApi& parent, std::string name, std::string folder)
      : parent_(parent), name_(std::move(name)), folder_(std::move(folder)) {
    Start();
  }
  ~RestartedAggregator() override { Kill(); }
  void Restart() {
    changing_ = true;  // a lock prefers those who read, and somebody always does
    const std::unique_lock lock(mutex_);
    Kill();
    Start();
    changing_ = false;
  }

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    if (changing_) return Unavailable("nobody listens there");
    const std::shared_lock lock(mutex_);
    return running_->Poll(request);
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    if (changing_) return Unavailable("nobody listens there");
    const std::shared_lock lock(mutex_);
    return running_->Fetch(caller, blob, offset);
  }
  // Readers and writers must be gone before their aggregator is.
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    if (changing_) return Unavailable("nobody listens there");
    std::shared_lock lock(mutex_);
    RIVULET_ASSIGN_OR_RETURN(auto writer, running_->Submit(caller, submission));
    return std::make_unique<Held>(std::move(lock), std::move(writer));
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    if (changing_) return Unavailable("nobody listens there");
    const std::shared_lock lock(mutex_);
    return running_->Fail(caller, failure);
  }

 private:
  class Held final : public ChunkWriter {
   public:
    Held(std::shared_lock<std::shared_mutex> lock, std::unique_ptr<ChunkWriter> writer)
        : lock_(std::move(lock)), writer_(std::move(writer)) {}
    const SubmitResult* decided() const override { return writer_->decided(); }
    std::span<const uint32_t> staged_crcs() const override { return writer_->staged_crcs(); }
    Status Resume(int64_t offset) override { return writer_->Resume(offset); }
    Status Write(std::span<const std::byte> bytes) override { return writer_->Write(bytes); }
    StatusOr<SubmitResult> Finish(const Digest& identity) override { return writer_->Finish(identity); }

   private:
    std::shared_lock<std::shared_mutex> lock_;
    std::unique_ptr<ChunkWriter> writer_;
  };
  void Start() {
    running_ =
        std::make_unique<Aggregator>(parent_, AggregatorOptions{.name = name_,
                                                                .version = "test",
                                                                .folder = folder_,
                                                                .state = JoinPath(folder_, name_),
                                                                .calls = {.backoff = {.initial_ms = 1, .max_ms = 5}}});
    thread_ = std::thread([this] { running_->Run().IgnoreError(); });
  }
  void Kill() {
    running_->Stop();
    thread_.join();
  }

  CoordinatorApi& parent_;
  const std::string name_, folder_;
  std::shared_mutex mutex_;
  std::atomic<bool> changing_ = false;
  std::unique_ptr<Aggregator> running_;
  std::thread thread_;
};

// Aggregators "upper" and "lower", of which the second calls the first. Five clients call one of them.
struct Tree {
  Tree(CoordinatorApi& coordinator, const std::string& folder)
      : upper(coordinator, "upper", folder), lower(upper, "lower", folder) {}
  CoordinatorApi& For(CoordinatorApi& coordinator, int64_t client) {
    if (client < 2 || client > 6) return coordinator;
    return client < 4 ? static_cast<CoordinatorApi&>(upper) : lower;
  }
  RestartedAggregator upper, lower;
};

class SecureAggregatorsTest : public SecureRunsTest {
 protected:
  using Wrap = std::function<std::unique_ptr<CoordinatorApi>(CoordinatorApi& api, int64_t client, Tree& tree)>;
  // Each client's wrapper keeps the tree; the run does not end before all have theirs.
  Trace RunBelow(const Scenario& scenario, const std::string& db, const Wrap& wrap = nullptr) {
    class Below final : public ForwardingCoordinator {
     public:
      Below(std::shared_ptr<Tree> tree, CoordinatorApi& api, std::unique_ptr<CoordinatorApi> wrapped)
          : ForwardingCoordinator(wrapped != nullptr ? *wrapped : api),
            tree_(std::move(tree)),
            wrapped_(std::move(wrapped)) {}

     private:
      const std::shared_ptr<Tree> tree_;
      const std::unique_ptr<CoordinatorApi> wrapped_;  // goes before the tree
    };
    std::mutex mutex;
    std::weak_ptr<Tree> made;
    Deployed changed = WithCertificates(db);
    changed.between = [&](CoordinatorApi& api, int64_t i) -> std::unique_ptr<CoordinatorApi> {
      const std::lock_guard lock(mutex);
      std::shared_ptr<Tree> tree = made.lock();
      if (tree == nullptr) made = tree = std::make_shared<Tree>(api, Path(""));
      CoordinatorApi& to = tree->For(api, i);
      std::unique_ptr<CoordinatorApi> wrapped = wrap ? wrap(to, i, *tree) : nullptr;
      return std::make_unique<Below>(std::move(tree), to, std::move(wrapped));
    };
    return Deploy(scenario, db, changed);
  }
};

TEST_F(SecureAggregatorsTest, OneAndTwoLevels_AreThePlainRun) {
  for (const std::string algorithm : {"fedavg", "scaffold"}) {
    SCOPED_TRACE(algorithm);
    Scenario scenario = Plain(algorithm);
    scenario.evaluation.federated_every = 3;
    const Trace plain = Run(scenario, algorithm + "-plain.sqlite");
    ASSERT_OK(plain.status);
    const std::string db = algorithm + "-secure.sqlite";
    const Trace secure = RunBelow(Secure(scenario), db);
    ASSERT_OK(secure.status);
    EXPECT_EQ(secure.digests, plain.digests);
    EXPECT_EQ(SummedMeasures(Path(db)), SummedMeasures(Path(algorithm + "-plain.sqlite")));
    EXPECT_EQ(MeasuredOfSingleClients(Path(db)), 0);
  }
}

// A client is lost at a step, above, below and beside aggregators.
TEST_F(SecureAggregatorsTest, ClientsLostAtSteps_AreInTheSumOrNot_AsInThePlainRun) {
  const Trace all = Run(Plain(), "all.sqlite");
  for (const int64_t client : {2, 5}) {
    const Trace without =
        Run(Plain(), fmt::format("without-{}.sqlite", client), {{client, {{.round = 2, .step = kSumStep}}}});
    for (int step = 1; step < kSteps; ++step) {
      SCOPED_TRACE(fmt::format("client {} at step {}", client, step));
      const Trace secure =
          RunBelow(Secure(Plain()), fmt::format("{}-{}.sqlite", client, step),
                   [&](CoordinatorApi& api, int64_t i, Tree&) -> std::unique_ptr<CoordinatorApi> {
                     if (i != client) return nullptr;
                     return std::make_unique<LossyCoordinator>(api, std::vector<Loss>{{.round = 2, .step = step}});
                   });
      ASSERT_OK(secure.status);
      EXPECT_EQ(secure.digests, step <= kSumStep ? without.digests : all.digests);
    }
  }
}

// Its words cannot be taken out of the sum again. Another client's words come after its failure, so that the set of the
// sum is still open.
TEST_F(SecureAggregatorsTest, ClientThatFailsAfterItsWords_IsInTheSum) {
  class Fails final : public ForwardingCoordinator {
   public:
    Fails(CoordinatorApi& api, std::atomic<bool>& failed) : ForwardingCoordinator(api), failed_(failed) {}
    StatusOr<PollReply> Poll(const PollRequest& request) override {
      for (const TaskProgress& progress : request.working_on) {
        const std::optional<TaskName> name = TaskNameOf(progress.task, request.caller.run_id);
        const bool sent = progress.step == kSumStep && progress.held;
        if (!name || name->round != 2 || !sent || failed_) continue;
        EXPECT_OK(api_.Fail(request.caller, {.task = progress.task}));
        failed_ = true;
      }
      return ForwardingCoordinator::Poll(request);
    }

   private:
    std::atomic<bool>& failed_;
  };
  class Waits final : public ForwardingCoordinator {
   public:
    Waits(CoordinatorApi& api, const std::atomic<bool>& failed) : ForwardingCoordinator(api), failed_(failed) {}
    StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
      const std::optional<TaskName> name = TaskNameOf(submission.task, caller.run_id);
      while (name && name->round == 2 && submission.step == kSumStep && !failed_) std::this_thread::yield();
      return ForwardingCoordinator::Submit(caller, submission);
    }

   private:
    const std::atomic<bool>& failed_;
  };
  const Trace all = Run(Plain(), "all.sqlite");
  ASSERT_OK(all.status);
  std::atomic<bool> failed = false;
  const Trace secure =
      Run(Secure(Plain()), "fails.sqlite", {}, [&](CoordinatorApi& api, int64_t i) -> std::unique_ptr<CoordinatorApi> {
        if (i == 1) return std::make_unique<Fails>(api, failed);
        if (i == 0) return std::make_unique<Waits>(api, failed);
        return nullptr;
      });
  ASSERT_OK(secure.status);
  EXPECT_TRUE(failed);
  EXPECT_EQ(secure.digests, all.digests);
  ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path("fails.sqlite"), History::Access::kReadOnly));
  ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
  ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> rows, history->ClientRounds(run.run_id, 2));
  EXPECT_EQ(rows.size(), 7u) << "of one attempt";
  for (const ClientRoundRow& row : rows) EXPECT_EQ(row.status, "folded") << row.client_id;
}

// Clients whose words, or calls on their way, were in it drop out of the sum, and nothing else is lost. They are five
// of sixteen clients at most, and eleven give a secret.
TEST_F(SecureAggregatorsTest, AggregatorKilledAtAStep_LosesFewClients_AndTheSumIsOfTheOthers) {
  class Killer final : public ForwardingCoordinator {
   public:
    Killer(CoordinatorApi& api, RestartedAggregator& victim, int step)
        : ForwardingCoordinator(api), victim_(victim), step_(step) {}
    // Before its client knows the answer to what it polls for next, so that this step's has arrived.
    StatusOr<PollReply> Poll(const PollRequest& request) override {
      for (const TaskProgress& progress : request.working_on) {
        const std::optional<TaskName> name = TaskNameOf(progress.task, request.caller.run_id);
        const bool answered = progress.step == step_ && progress.held;
        if (!name || name->round != 2 || !answered || killed_.exchange(true)) continue;
        victim_.Restart();
      }
      return ForwardingCoordinator::Poll(request);
    }
    bool killed() const { return killed_; }

   private:
    RestartedAggregator& victim_;
    const int step_;
    std::atomic<bool> killed_ = false;
  };
  Scenario scenario = Plain();
  scenario.run.rounds = 2;
  scenario.data.partition.clients = scenario.server.clients_per_round = 16;
  const Trace all = Run(scenario, "all.sqlite");
  ASSERT_OK(all.status);
  for (const bool upper : {true, false}) {
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(fmt::format("{} at step {}", upper ? "upper" : "lower", step));
      const std::string db = fmt::format("{}-{}.sqlite", upper, step);
      const Trace secure = RunBelow(Secure(scenario), db, [&](CoordinatorApi& api, int64_t i, Tree& tree) {
        std::unique_ptr<CoordinatorApi> killer;
        if (i == 5) killer = std::make_unique<Killer>(api, upper ? tree.upper : tree.lower, step);
        return killer;
      });
      ASSERT_OK(secure.status);
      ASSERT_OK_AND_ASSIGN(const auto history, History::Open(Path(db), History::Access::kReadOnly));
      ASSERT_OK_AND_ASSIGN(const RunRow run, history->ResolveRun("latest"));
      ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> rows, history->ClientRounds(run.run_id, 2));
      std::map<int64_t, std::vector<Loss>> lost;
      for (const ClientRoundRow& row : rows) {
        if (row.status == "folded") continue;
        lost[std::stoll(row.client_id.substr(row.client_id.find('-') + 1))] = {{.round = 2, .step = kSumStep}};
      }
      ASSERT_LE(lost.size(), 5u);
      const Trace plain = lost.empty() ? all : Run(scenario, db + "-plain", lost);
      EXPECT_EQ(secure.digests, plain.digests);
    }
  }
}

}  // namespace
}  // namespace rivulet
