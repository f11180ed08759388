#include "simulations/simulator.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <unordered_map>
#include <utility>

#include "client/artifact_cache.h"
#include "client/stop_signal.h"
#include "client/task_runner.h"
#include "engine/base/mutex.h"
#include "engine/profile/tracer.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

constexpr char kVersion[] = "simulated";

// Clients with a task to poll for, in the order of their offers. A client is in it once at most. Thread-safe.
class OfferQueue {
 public:
  void Push(uint32_t client) {
    MutexLock lock(mutex_);
    if (closed_ || std::find(waiting_.begin(), waiting_.end(), client) != waiting_.end()) return;
    waiting_.push_back(client);
    offered_.NotifyOne();
  }
  // Waits for one; nothing when closed.
  std::optional<uint32_t> Pop() {
    MutexLock lock(mutex_);
    while (waiting_.empty() && !closed_) offered_.Wait(mutex_);
    if (closed_) return std::nullopt;
    const uint32_t client = waiting_.front();
    waiting_.pop_front();
    return client;
  }
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    offered_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar offered_;
  std::deque<uint32_t> waiting_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

class LocalSimulation : public Simulation {
 public:
  Status Initialise(SimulationOptions options) {
    instruments_ = options.instruments;
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    workers_ = options.workers > 0 ? options.workers : cores;
    RunSetup setup(options.scenario, {.evaluation_threads = workers_});
    const Scenario& scenario = setup.scenario();
    RIVULET_ASSIGN_OR_RETURN(train_, setup.training_data());
    RIVULET_ASSIGN_OR_RETURN(shares_, setup.shares());
    const auto clients = static_cast<int64_t>(shares_->size());
    if (scenario.server.clients_per_round > clients) {
      return InvalidArgument("server.clients_per_round is {}, but data.partition gives {} clients; lower it",
                             scenario.server.clients_per_round, clients);
    }
    for (uint32_t client = 0; client < shares_->size(); ++client) {
      const ClientShare& share = (*shares_)[client];
      const auto examples = static_cast<int64_t>(share.examples.size());
      if (examples > scenario.server.max_weight) {
        return InvalidArgument("client '{}' has {} examples, and server.max_weight is {}; raise it", share.client_id,
                               examples, scenario.server.max_weight);
      }
      by_id_[share.client_id] = client;
    }
    CoordinatorOptions coordinator;
    RIVULET_ASSIGN_OR_RETURN(coordinator.plan, setup.plan());
    RIVULET_RETURN_IF_ERROR(CheckFirstExample(*coordinator.plan));
    RIVULET_ASSIGN_OR_RETURN(evaluator_, setup.evaluator());
    artifacts_ = std::make_unique<ArtifactCache>("", setup.row_budget());

    coordinator.scenario = std::move(options.scenario);
    // by_key without a number takes all keys; from here on the number is known, and the first selection waits for it.
    coordinator.scenario.data.partition.clients = clients;
    coordinator.db_path = options.db_path;
    coordinator.resume = options.resume;
    coordinator.evaluator = evaluator_.get();
    coordinator.enforce_deadline = false;
    coordinator.tracer = instruments_.tracer;
    coordinator.observer = std::move(options.observer);
    coordinator.observer.on_offer = [this](const std::string& client_id) {
      const auto found = by_id_.find(client_id);
      if (found != by_id_.end()) queue_.Push(found->second);
    };
    coordinator.observer.on_round = [this,
                                     watch = std::move(coordinator.observer.on_round)](const RoundReport& report) {
      if (!report.central.empty()) {
        MutexLock lock(mutex_);
        central_ = report.central;
      }
      if (watch) watch(report);
    };
    RIVULET_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(coordinator)));
    return absl::OkStatus();
  }

  ~LocalSimulation() override { JoinWorkers(); }

  const std::string& run_id() const override { return coordinator_->run_id(); }

  StatusOr<SimulationResult> Run() override {
    SimulationResult result;
    result.run_id = run_id();
    result.already_finished = coordinator_->already_finished();
    Status status;
    if (!result.already_finished) {
      for (int i = 0; i < workers_; ++i) threads_.emplace_back([this, i] { Work(i); });
      std::vector<std::string> ids;
      ids.reserve(shares_->size());
      for (const ClientShare& share : *shares_) ids.push_back(share.client_id);
      status = coordinator_->Register(ids);
      if (status.ok()) status = coordinator_->Wait();
      JoinWorkers();
    }
    MutexLock lock(mutex_);
    if (!status.ok())
      return worker_error_.ok() ? status : worker_error_;  // a worker's error is why the run was stopped
    result.central = central_;
    result.model = coordinator_->model();
    return result;
  }

  void Stop() override {
    coordinator_->Stop();
    stop_.Stop();
  }

 private:
  // A record of the wrong kind is told before the run has a row, not as a client that fails.
  Status CheckFirstExample(const Plan& plan) const {
    RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
    std::vector<AlignedBuffer> memory;
    std::vector<TensorView> feeds;
    for (const FeedSpec& feed : decoder->FeedSpecs(1)) {
      memory.emplace_back(static_cast<size_t>(feed.spec.shape.elements()) * SizeOf(feed.spec.dtype));
      feeds.push_back({memory.back().data(), feed.spec.dtype, feed.spec.shape});
    }
    const uint32_t first = 0;
    return DatasetExamples(train_, std::nullopt, decoder).Decode({&first, 1}, feeds);
  }

  // One worker: speaks for whichever client is offered a task next.
  void Work(int number) {
    EnterWorkerThread();
    if (instruments_.tracer != nullptr) instruments_.tracer->NameThread(fmt::format("worker {}", number));
    TaskRunnerOptions options;
    options.instruments = instruments_;
    TaskRunner runner(*coordinator_, *artifacts_, stop_, std::move(options));
    while (const std::optional<uint32_t> client = queue_.Pop()) {
      const Status status = ActFor(runner, (*shares_)[*client]);
      if (status.ok() || stop_.stopped()) continue;
      {
        MutexLock lock(mutex_);
        if (worker_error_.ok()) worker_error_ = status;
      }
      coordinator_->Stop();
      return;
    }
  }

  Status ActFor(TaskRunner& runner, const ClientShare& share) {
    BoundData data;
    data.dataset = train_;
    data.indices = share.examples;
    PollRequest request;
    request.caller = {share.client_id, "", run_id()};
    request.capabilities.version = kVersion;
    request.capabilities.datasets = {{data.name, data.size()}};
    RIVULET_ASSIGN_OR_RETURN(const PollReply reply, runner.Poll(request));
    // None: the offer has gone, as its round ended meanwhile. A task that failed or was refused is in the coordinator's
    // hands: it goes on without, tries again, or ends the run.
    for (const Task& task : reply.tasks) {
      RIVULET_RETURN_IF_ERROR(runner.Run(request.caller, task, data).status());
    }
    return absl::OkStatus();
  }

  void JoinWorkers() {
    queue_.Close();
    stop_.Stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int workers_ = 1;
  Instruments instruments_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const std::vector<ClientShare>> shares_;
  std::unordered_map<std::string, uint32_t> by_id_;
  std::shared_ptr<Evaluator> evaluator_;
  OfferQueue queue_;
  StopSignal stop_;
  std::unique_ptr<ArtifactCache> artifacts_;
  Mutex mutex_;
  Status worker_error_ GUARDED_BY(mutex_);  // the first
  std::map<std::string, double> central_ GUARDED_BY(mutex_);
  std::unique_ptr<Coordinator> coordinator_;  // goes first: its threads call what stands above
  std::vector<std::thread> threads_;
};

}  // namespace

StatusOr<std::unique_ptr<Simulation>> Simulation::Create(SimulationOptions options) {
  auto simulation = std::make_unique<LocalSimulation>();
  RIVULET_RETURN_IF_ERROR(simulation->Initialise(std::move(options)));
  return std::unique_ptr<Simulation>(std::move(simulation));
}

}  // namespace rivulet
