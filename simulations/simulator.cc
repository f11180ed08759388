#include "simulations/simulator.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "client/training/device/gpu_team.h"
#include "client/training/device/gpu_trainer.h"
#include "client/training/example_accounts.h"
#include "coordinator/secure_round.h"
#include "coordinator/stored_run.h"
#include "engine/base/available_cores.h"
#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "federated/random/streams.h"
#include "federated/states/state_store.h"
#include "setup/model.h"
#include "setup/run_members.h"
#include "setup/run_setup.h"
#include "simulations/attacks/shown_attack.h"
#include "simulations/clients/planned_tasks.h"
#include "simulations/clients/simulated_identities.h"
#include "simulations/clients/site_threads.h"
#include "simulations/clients/virtual_clients.h"
#include "simulations/fine_tuning.h"
#include "simulations/fleet/simulated_fleet.h"
#include "simulations/launchers/rank_crew.h"

namespace rivulet {
namespace {

constexpr char kVersion[] = "simulated";
// For a worker, in hand at a time: a poll costs as much as ten tasks of the smallest model. The requested number
// follows from the tasks' durations, and the rest of a cohort is shared, so that no worker waits for another.
constexpr int64_t kMostTasks = 64;

class LocalSimulation : public Simulation {
 public:
  Status Initialise(SimulationOptions options) {
    instruments_ = options.instruments;
    others_train_ = options.others_train;
    device_ = options.device;
    const bool on_device = device_.device != nullptr;
    RIVULET_RETURN_IF_ERROR(CheckOneModel());
    workers_ = options.workers > 0 || others_train_ ? options.workers
               : on_device                          ? device_.count()
                                                    : WorkersOnHost(options);
    std::shared_ptr<const Plan> kept_plan;
    if (!options.resume.empty()) {
      RIVULET_ASSIGN_OR_RETURN(kept_plan, PlanOfStoredRun(options.db_path, options.resume));
    }
    if (workers_ > 0) RIVULET_RETURN_IF_ERROR(RequireGraph(options.scenario));
    RunSetup setup(options.scenario, {.evaluation_threads = on_device ? AvailableCores() : workers_,
                                      .plan = std::move(kept_plan),
                                      .monitor = others_train_ ? instruments_.steps : nullptr,
                                      .device = device_.device,
                                      .shared = options.shared == nullptr ? nullptr : options.shared->parts});
    CoordinatorOptions coordinator;
    RIVULET_RETURN_IF_ERROR(FindClients(setup, coordinator));
    RIVULET_RETURN_IF_ERROR(setup.FitCohort());
    options.scenario = setup.scenario();
    const Scenario& scenario = setup.scenario();
    const int64_t clients = coordinator.population->size();
    RIVULET_RETURN_IF_ERROR(CheckCohorts(scenario, clients));
    RIVULET_ASSIGN_OR_RETURN(coordinator.plan, setup.plan());
    RIVULET_RETURN_IF_ERROR(PrepareSecureSums(*coordinator.plan, options, coordinator));
    RIVULET_RETURN_IF_ERROR(Place(coordinator.plan, options));
    RIVULET_RETURN_IF_ERROR(FormTeam(coordinator.plan, options));
    RIVULET_RETURN_IF_ERROR(PrepareClients(setup, *coordinator.plan, options.shared));
    RIVULET_RETURN_IF_ERROR(PlanTasks(coordinator.plan, options));
    if (options.resume.empty() && others_train_) {
      RIVULET_ASSIGN_OR_RETURN(coordinator.initial_model, setup.initial_model());
    }
    RIVULET_ASSIGN_OR_RETURN(coordinator.base, setup.base());
    RIVULET_ASSIGN_OR_RETURN(evaluator_, setup.evaluator());
    RIVULET_ASSIGN_OR_RETURN(evaluator_, WithAttackShown(setup, std::move(evaluator_), workers_));
    RIVULET_ASSIGN_OR_RETURN(training_, FineTuning(setup));

    if (device_.device != nullptr) coordinator.trained_on = device_.device->properties().name;
    coordinator.scenario = std::move(options.scenario);
    RIVULET_RETURN_IF_ERROR(SetMembers(scenario, clients, coordinator));
    coordinator.db_path = options.db_path;
    coordinator.resume = options.resume;
    coordinator.evaluator = evaluator_.get();
    coordinator.training = training_.get();
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
    invitation_.scenario = coordinator.scenario.ToToml();
    const bool sync_states = coordinator.scenario.run.durability == "round";
    const int64_t cohort = coordinator.scenario.server.clients_per_round;
    std::shared_ptr<const Plan> plan = coordinator.plan;
    RIVULET_ASSIGN_OR_RETURN(coordinator_, Coordinator::Create(std::move(coordinator)));
    invitation_.run_id = run_id();
    return PrepareTraining(cohort, sync_states, std::move(plan), options.ranks);
  }

  const std::string& run_id() const override { return coordinator_->run_id(); }
  Coordinator& coordinator() override { return *coordinator_; }

  StatusOr<Invitation> invitation() const override {
    Invitation invitation = invitation_;
    if (clients_ == nullptr || !graph_) return invitation;
    RIVULET_ASSIGN_OR_RETURN(invitation.fingerprint, clients_->Fingerprint());
    return invitation;
  }

  StatusOr<SimulationResult> Run() override {
    SimulationResult result;
    result.run_id = run_id();
    result.already_finished = coordinator_->already_finished();
    Status status;
    if (!result.already_finished) {
      if (sites_ != nullptr) sites_->Start();
      std::thread leading;
      if (leader_ != nullptr) leading = std::thread([this] { Lead(); });
      status = coordinator_->Wait();
      StopTraining();
      if (sites_ != nullptr) sites_->Join();
      if (leading.joinable()) leading.join();
    }
    MutexLock lock(mutex_);
    if (!status.ok())
      return worker_error_.ok() ? status : worker_error_;  // a worker's error is why the run was stopped
    result.central = central_;
    result.model = coordinator_->model();
    return result;
  }

  // The workers come first: a stopped coordinator wakes them, and they must see the reason.
  void Stop() override {
    StopTraining();
    coordinator_->Stop();
  }

 private:
  // The clients of data.partition; if others train and there are no data, numbered ones.
  Status FindClients(RunSetup& setup, CoordinatorOptions& coordinator) {
    const Scenario& scenario = setup.scenario();
    graph_ = scenario.model.arrays.empty();
    if (others_train_ && scenario.data.train.empty()) {
      if (!scenario.selection.tags.empty() || scenario.selection.min_examples > 0) {
        return InvalidArgument(
            "selection.tags and selection.min_examples choose among the clients of data.train, and it is not given");
      }
      const int64_t clients = scenario.data.partition.clients;
      if (clients <= 0) {
        return InvalidArgument(
            "without data.train the number of clients is unknown; give data.train or data.partition.clients");
      }
      coordinator.population = NumberedPopulation(clients);
      return absl::OkStatus();
    }
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
    coordinator.population = shares->population();
    coordinator.task_time = [shares, epochs = scenario.client.epochs](const std::string& client_id) {
      const std::optional<int64_t> client = shares->Find(client_id);
      return client ? static_cast<int64_t>(shares->ExamplesOf(*client).size()) * epochs : 1;
    };
    return absl::OkStatus();
  }

  static Status CheckCohorts(const Scenario& scenario, int64_t clients) {
    if (scenario.server.clients_asked() > clients) {
      return InvalidArgument("server.clients_per_round is {}{}, but data.partition gives {} clients; lower it",
                             scenario.server.clients_per_round,
                             scenario.server.over_selection > 1
                                 ? fmt::format(" and server.over_selection {}", scenario.server.over_selection)
                                 : "",
                             clients);
    }
    if (scenario.evaluation.federated_clients > clients) {
      return InvalidArgument("evaluation.federated_clients is {}, but data.partition gives {} clients; lower it",
                             scenario.evaluation.federated_clients, clients);
    }
    return absl::OkStatus();
  }

  // Sets the members, once the number of clients is known.
  Status SetMembers(const Scenario& scenario, int64_t clients, CoordinatorOptions& coordinator) {
    // by_key without a number takes all keys; from here on the number is known, and the first selection waits for it.
    coordinator.scenario.data.partition.clients = clients;
    coordinator.plays_attack = clients_ != nullptr;
    coordinator.names_states = others_train_;
    if (clients_ != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(coordinator.population, RunMembers(scenario, clients_->shares()));
    }
    RIVULET_RETURN_IF_ERROR(MakeFleet(scenario, coordinator));
    ServerConfig& server = coordinator.scenario.server;
    const int64_t members = coordinator.population->size();
    if (members < clients && server.min_clients == 0) server.min_clients = members;
    if (server.min_clients > members) {
      return InvalidArgument("server.min_clients is {}, but the run has {} clients; lower it", server.min_clients,
                             members);
    }
    return absl::OkStatus();
  }

  // The clients of a sum in steps are sites of this process, each with its own certificate. Other processes do not run
  // the clients' halves: with them, the same sums are made without keys.
  Status PrepareSecureSums(const Plan& plan, const SimulationOptions& options, CoordinatorOptions& coordinator) {
    RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SteppedProtocol(plan.aggregation()));
    if (protocol == nullptr || others_train_ || options.ranks != nullptr) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(identities_, SimulatedIdentities::Create(Clock::System()));
    coordinator.identity = [identity = identities_->coordinator()] { return identity; };
    return absl::OkStatus();
  }

  // Operations that the device lacks are reported before the run has a row.
  Status Place(const std::shared_ptr<const Plan>& plan, const SimulationOptions& options) {
    if (device_.device == nullptr) return absl::OkStatus();
    const Status can = CheckTraining(plan, device_);
    if (can.ok() || !options.soft_placement || !absl::IsUnimplemented(can)) return can;
    if (options.note) options.note(fmt::format("clients are trained on the host: {}", Message(can)));
    device_ = {};
    if (options.workers == 0) workers_ = WorkersOnHost(options);
    return absl::OkStatus();
  }

  // A device's model may decide its algorithm, and so its bits.
  Status CheckOneModel() const {
    for (const std::shared_ptr<GpuDevice>& other : device_.more) {
      const GpuDevice& first = *device_.device;
      if (std::string_view(other->properties().name) == first.properties().name) continue;
      return FailedPrecondition(
          "GPU {} is '{}' and GPU {} is '{}', and a run's updates are those of one model of GPU; name GPUs of one "
          "model",
          first.number(), first.properties().name, other->number(), other->properties().name);
    }
    return absl::OkStatus();
  }

  // Several devices belong to one worker, and their sums are added on them, unless a number of workers was given, or
  // each task must be visible.
  Status FormTeam(const std::shared_ptr<const Plan>& plan, const SimulationOptions& options) {
    const bool asked_otherwise = options.workers > 0 || others_train_ || options.ranks != nullptr ||
                                 instruments_.tracer != nullptr || device_.check;
    if (asked_otherwise || device_.count() < 2) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(device_.team, TrainsAsTeam(plan, device_));
    if (device_.team) workers_ = 1;
    return absl::OkStatus();
  }

  static int WorkersOnHost(const SimulationOptions& options) {
    return options.ranks != nullptr ? WorkersOfRank(*options.ranks) : AvailableCores();
  }

  Status PrepareClients(RunSetup& setup, const Plan& plan, const SharedRuns* shared) {
    if (others_train_ && setup.scenario().data.train.empty()) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(
        clients_, VirtualClients::Create(setup, plan.keeps_state(), shared == nullptr ? nullptr : shared->artifacts));
    if (!graph_) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(clients_->CheckFirstExample(plan));
    return clients_->CheckWeights(plan.aggregation());
  }

  // One thread that deals tasks to no others needs no plan, unless its model is large. Then a lack of memory for even
  // one client is reported before anything is allocated, instead of the system killing the process later. A given
  // memory limit has priority.
  Status PlanTasks(const std::shared_ptr<const Plan>& plan, const SimulationOptions& options) {
    constexpr size_t kLargeModel = size_t{64} << 20;
    const bool trains_here = workers_ > 0 && clients_ != nullptr && graph_ && device_.device == nullptr;
    const bool deals = workers_ > 1 || options.ranks != nullptr;
    if (!trains_here || (!deals && plan->layout()->arena_bytes() < kLargeModel)) return absl::OkStatus();
    StatusOr<PlannedTasks> planned = PlannedTasks::Create(*clients_, plan);
    const int64_t memory = MemoryOfRank(options.memory, options.ranks);
    if (options.memory <= 0 && planned.ok() && planned->Memory(1) > memory) {
      return ResourceExhausted(
          "a client of this model is planned to take {:.1f} MB, and {:.1f} MB are available; a smaller model or "
          "client.batch_size takes less",
          static_cast<double>(planned->Memory(1)) / 1e6, static_cast<double>(memory) / 1e6);
    }
    if (!deals) return absl::OkStatus();
    planned_ = std::move(planned);
    workers_ = ThreadsToTrain(planned_, workers_, memory, options.note);
    return absl::OkStatus();
  }

  // Devices with virtual time for tasks, if the scenario has any. The computation of tasks is known for graphs, and for
  // clients with data here.
  Status MakeFleet(const Scenario& scenario, CoordinatorOptions& options) {
    const DevicesConfig& devices = scenario.devices;
    if (!devices.any()) return absl::OkStatus();
    const bool computes = !devices.compute.empty() || !devices.trace.empty();
    if (computes && (clients_ == nullptr || !graph_)) {
      return InvalidArgument(
          "devices.compute and devices.trace reckon by the operations of a task, and {}; leave them out, and say by "
          "devices.delay how long tasks take",
          graph_ ? "the data that clients train on are not here (data.train)"
                 : "a model without a graph (model.arrays) does not have them");
    }
    if (computes && !planned_.ok()) planned_ = PlannedTasks::Create(*clients_, options.plan);
    if (computes) RIVULET_RETURN_IF_ERROR(planned_.status());
    RIVULET_ASSIGN_OR_RETURN(const PlannedBytes bytes, BytesOfTask(*options.plan));
    const auto work = [shares = clients_ == nullptr ? nullptr : clients_->shared_shares(), planned = planned_, bytes,
                       computes,
                       seed = scenario.run.seed](const std::string& client_id, std::optional<TaskOfClient> which) {
      TaskWork work{0, bytes.down, bytes.up};
      const std::optional<int64_t> client = computes ? shares->Find(client_id) : std::nullopt;
      if (!client) return work;
      const int64_t examples = std::ssize(shares->ExamplesOf(*client));
      if (which) {
        Task task;
        task.base_version = which->base_round;
        task.ordinal = which->ordinal;
        task.stream_key = ClientKey(seed, client_id);
        work.operations = static_cast<double>(planned->Cost(task, examples));
      } else {
        work.operations = static_cast<double>(planned->MeanCost(TaskKind::kTrain, examples));
      }
      return work;
    };
    RIVULET_ASSIGN_OR_RETURN(const auto fleet, SimulatedFleet::Create(devices, scenario.run.seed, options.population,
                                                                      work, FileSystem::Default()));
    options.fleet = fleet;
    options.task_time = [fleet](const std::string& client_id) { return fleet->TypicalTask(client_id); };
    return absl::OkStatus();
  }

  // Prepares the training: by this process's threads, a device, or ranks.
  Status PrepareTraining(int64_t cohort, bool sync_states, std::shared_ptr<const Plan> plan, Ranks* ranks) {
    if (workers_ == 0) return absl::OkStatus();
    SiteOptions site{.name = "worker",
                     .run_id = run_id(),
                     .version = kVersion,
                     .most_tasks = kMostTasks,
                     .calls = {.max_plan_bytes = kAnyBytes},  // of this process
                     .instruments = instruments_};
    if (!others_train_) {
      // As durable as the versions that refer to it: if each of these is synced before the next but one, so is this.
      states_ = NewStateStore(FileSystem::Default(), FolderOf(coordinator_->folder()), sync_states);
      site.states = states_.get();
      if (ranks == nullptr) {
        examples_ = std::make_unique<ExampleAccounts>(FileSystem::Default(),
                                                      JoinPath(coordinator_->folder(), kExamplesFolder), sync_states);
        site.example_keys = [accounts = examples_.get()](const Task& task, std::string_view client_id, const Plan& plan,
                                                         const ExampleData& data) {
          return accounts->Begin(task, client_id, plan, data);
        };
      }
    }
    site.identities = identities_.get();
    if (ranks != nullptr) return LeadRanks(*ranks, std::move(plan));
    if (device_.device != nullptr) {
      // Each worker's share of a cohort: that many tasks go to the device at once.
      const int64_t each = (cohort + workers_ - 1) / workers_;
      site.device = device_;
      site.least_tasks = std::clamp<int64_t>(each, 1, device_.most_lanes * (device_.team ? device_.count() : 1));
      site.most_tasks = std::max(site.least_tasks, site.most_tasks);
    }
    sites_ = std::make_unique<SiteThreads>(
        *coordinator_, *clients_,
        SiteThreadsOptions{
            .threads = workers_, .site = std::move(site), .on_error = [this](const Status& status) { Fail(status); }});
    return absl::OkStatus();
  }

  Status LeadRanks(Ranks& ranks, std::shared_ptr<const Plan> plan) {
    if (coordinator_->already_finished()) return absl::OkStatus();
    leader_ = std::make_unique<RankLeader>(
        ranks, *coordinator_, *clients_,
        RankLeaderOptions{.plan = std::move(plan),
                          .run_id = run_id(),
                          .workers = workers_,
                          .cost =
                              [shares = clients_->shared_shares(), planned = planned_](const Task& task) {
                                const std::optional<int64_t> client = shares->Find(task.client_id);
                                const int64_t examples = client ? std::ssize(shares->ExamplesOf(*client)) : 0;
                                return planned.ok() ? planned->Cost(task, examples) : examples;
                              },
                          .states = states_.get(),
                          .device = device_,
                          .instruments = instruments_});
    RIVULET_ASSIGN_OR_RETURN(const Invitation to_ranks, invitation());
    return leader_->Begin(to_ranks);
  }

  void Lead() {
    const Status status = leader_->Run();
    if (!status.ok() && !absl::IsCancelled(status)) Fail(status);
  }

  void StopTraining() {
    if (sites_ != nullptr) sites_->Stop();
    if (leader_ != nullptr) leader_->Stop();
  }

  void Fail(const Status& status) {
    {
      MutexLock lock(mutex_);
      if (worker_error_.ok()) worker_error_ = status;
    }
    Stop();
  }

  int workers_ = 1;
  bool others_train_ = false;
  TrainingDevice device_;
  bool graph_ = true;  // the plan has a graph, which this program's clients run
  Instruments instruments_;
  std::unique_ptr<VirtualClients> clients_;  // null: there are no data
  StatusOr<PlannedTasks> planned_ = absl::UnknownError("nothing was planned");
  Invitation invitation_;  // without a fingerprint
  std::shared_ptr<Evaluator> evaluator_;
  std::unique_ptr<ServerTraining> training_;
  std::unique_ptr<ClientStateStore> states_;
  std::unique_ptr<ExampleAccounts> examples_;
  std::unique_ptr<SimulatedIdentities> identities_;  // null: no sums in steps
  Mutex mutex_;
  Status worker_error_ GUARDED_BY(mutex_);  // the first
  std::map<std::string, double> central_ GUARDED_BY(mutex_);
  std::unique_ptr<Coordinator> coordinator_;  // destroyed before the members above: its threads call them
  std::unique_ptr<SiteThreads> sites_;        // destroyed first; with other training processes there may be neither
  std::unique_ptr<RankLeader> leader_;
};

}  // namespace

StatusOr<std::unique_ptr<Simulation>> Simulation::Create(SimulationOptions options) {
  auto simulation = std::make_unique<LocalSimulation>();
  RIVULET_RETURN_IF_ERROR(simulation->Initialise(std::move(options)));
  return std::unique_ptr<Simulation>(std::move(simulation));
}

}  // namespace rivulet
