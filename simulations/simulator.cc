#include "simulations/simulator.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "client/artifact_cache.h"
#include "client/gpu_trainer.h"
#include "client/site.h"
#include "client/stop_signal.h"
#include "coordinator/stored_run.h"
#include "engine/base/mutex.h"
#include "engine/profile/tracer.h"
#include "federated/states/state_store.h"
#include "setup/model.h"
#include "setup/run_setup.h"
#include "simulations/attacks/adversaries.h"

namespace rivulet {
namespace {

constexpr char kVersion[] = "simulated";

class LocalSimulation : public Simulation {
 public:
  Status Initialise(SimulationOptions options) {
    instruments_ = options.instruments;
    device_ = options.device;
    workers_ = options.workers > 0 ? options.workers : device_.device != nullptr ? 1 : Cores();
    std::shared_ptr<const Plan> kept_plan;
    if (!options.resume.empty()) {
      RIVULET_ASSIGN_OR_RETURN(kept_plan, PlanOfStoredRun(options.db_path, options.resume));
    }
    RIVULET_RETURN_IF_ERROR(RequireGraph(options.scenario));
    RunSetup setup(options.scenario, {.evaluation_threads = device_.device != nullptr ? Cores() : workers_,
                                      .plan = std::move(kept_plan),
                                      .device = device_.device});
    const Scenario& scenario = setup.scenario();
    RIVULET_ASSIGN_OR_RETURN(train_, setup.training_data());
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
    const int64_t clients = shares->size();
    if (scenario.server.clients_per_round > clients) {
      return InvalidArgument("server.clients_per_round is {}, but data.partition gives {} clients; lower it",
                             scenario.server.clients_per_round, clients);
    }
    if (scenario.evaluation.federated_clients > clients) {
      return InvalidArgument("evaluation.federated_clients is {}, but data.partition gives {} clients; lower it",
                             scenario.evaluation.federated_clients, clients);
    }
    CoordinatorOptions coordinator;
    RIVULET_ASSIGN_OR_RETURN(coordinator.plan, setup.plan());
    RIVULET_RETURN_IF_ERROR(Place(coordinator.plan, options));
    RIVULET_RETURN_IF_ERROR(CheckFirstExample(*coordinator.plan));
    RIVULET_ASSIGN_OR_RETURN(clients_, ClientsOf(scenario, coordinator.plan->keeps_state(), train_, shares));
    coordinator.plays_attack = true;
    const AggregationSpec& aggregation = coordinator.plan->aggregation();
    for (int64_t client = 0; aggregation.weighs_examples() && client < clients; ++client) {
      const auto examples = static_cast<int64_t>(shares->ExamplesOf(client).size());
      if (examples > aggregation.max_weight) {
        return InvalidArgument("client '{}' has {} examples, and server.max_weight is {}; raise it",
                               shares->NameAt(client), examples, aggregation.max_weight);
      }
    }
    RIVULET_ASSIGN_OR_RETURN(evaluator_, setup.evaluator());
    artifacts_ = std::make_unique<ArtifactCache>("", setup.row_budget());

    // What a cohort gives each worker: so many go to the device at once.
    const int64_t each = (scenario.server.clients_per_round + workers_ - 1) / workers_;
    least_tasks_ = std::clamp<int64_t>(each, 1, device_.most_lanes);

    coordinator.scenario = std::move(options.scenario);
    // by_key without a number takes all keys; from here on the number is known, and the first selection waits for it.
    coordinator.scenario.data.partition.clients = clients;
    coordinator.population = shares->population();
    coordinator.task_time = [shares, epochs = coordinator.scenario.client.epochs](const std::string& client_id) {
      const std::optional<int64_t> client = shares->Find(client_id);
      return client ? static_cast<int64_t>(shares->ExamplesOf(*client).size()) * epochs : 1;
    };
    coordinator.db_path = options.db_path;
    coordinator.resume = options.resume;
    coordinator.evaluator = evaluator_.get();
    coordinator.enforce_deadline = false;
    coordinator.tracer = instruments_.tracer;
    coordinator.observer = std::move(options.observer);
    coordinator.observer.on_round = [this,
                                     watch = std::move(coordinator.observer.on_round)](const RoundReport& report) {
      if (!report.central.empty()) {
        MutexLock lock(mutex_);
        central_ = report.central;
      }
      if (watch) watch(report);
    };
    const std::string durability = coordinator.scenario.run.durability;
    RIVULET_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(coordinator)));
    // As safe as the versions that name what is in it: where each is synced before the next but one, so is this.
    states_ = NewStateStore(FileSystem::Default(), FolderOf(coordinator_->folder()), durability == "round");
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
      status = coordinator_->Wait();
      JoinWorkers();
    }
    MutexLock lock(mutex_);
    if (!status.ok())
      return worker_error_.ok() ? status : worker_error_;  // a worker's error is why the run was stopped
    result.central = central_;
    result.model = coordinator_->model();
    return result;
  }

  // The workers first: a stopped coordinator wakes them, and they are to see why.
  void Stop() override {
    stop_.Stop();
    coordinator_->Stop();
  }

 private:
  // What the device cannot do is told before the run has a row.
  Status Place(const std::shared_ptr<const Plan>& plan, const SimulationOptions& options) {
    if (device_.device == nullptr) return absl::OkStatus();
    const Status can = CheckTraining(plan, device_);
    if (can.ok() || !options.soft_placement || !absl::IsUnimplemented(can)) return can;
    if (options.note) options.note(fmt::format("clients are trained on the host: {}", Message(can)));
    device_ = {};
    if (options.workers == 0) workers_ = Cores();
    return absl::OkStatus();
  }

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

  // More sites than processors hold no partial of their own: it would only be memory.
  void Work(int number) {
    EnterWorkerThread();
    if (instruments_.tracer != nullptr) instruments_.tracer->NameThread(fmt::format("worker {}", number));
    SiteOptions options;
    options.name = fmt::format("worker {}", number);
    options.run_id = run_id();
    options.version = kVersion;
    options.holds = number < Cores();
    options.instruments = instruments_;
    options.states = states_.get();
    options.change = change_;
    if (device_.device != nullptr) {
      options.device = device_;
      options.least_tasks = least_tasks_;
      options.most_tasks = std::max<int64_t>(least_tasks_, options.most_tasks);
    }
    const Status status = Site(*coordinator_, *data_, *artifacts_, stop_, std::move(options)).Run();
    if (status.ok() || stop_.stopped()) return;
    {
      MutexLock lock(mutex_);
      if (worker_error_.ok()) worker_error_ = status;
    }
    Stop();
  }

  static int Cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

  void JoinWorkers() {
    stop_.Stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int workers_ = 1;
  TrainingDevice device_;
  int64_t least_tasks_ = 1;  // that a worker asks for, of those that train on a device
  Instruments instruments_;
  std::shared_ptr<const Dataset> train_;
  SimulatedClients clients_;
  std::shared_ptr<Evaluator> evaluator_;
  StopSignal stop_;
  std::unique_ptr<ArtifactCache> artifacts_;
  std::unique_ptr<ClientStateStore> states_;
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
