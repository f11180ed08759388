#include "simulations/replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "client/training/example_accounts.h"
#include "coordinator/commit/commit.h"
#include "coordinator/history/history.h"
#include "coordinator/ledger/state_book.h"
#include "coordinator/run_privacy.h"
#include "coordinator/stored_run.h"
#include "engine/base/available_cores.h"
#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "federated/aggregation/external.h"
#include "federated/aggregation/staleness.h"
#include "federated/algorithms/algorithm.h"
#include "federated/download/download.h"
#include "federated/random/streams.h"
#include "federated/server_optimizers/server_rate.h"
#include "federated/states/state_store.h"
#include "setup/run_setup.h"
#include "simulations/clients/site_threads.h"
#include "simulations/clients/virtual_clients.h"
#include "simulations/fine_tuning.h"
#include "simulations/launchers/local_task_server.h"

namespace rivulet {
namespace {

// Clients' states during a replay; the run's own states are on its disk, and continue from its end.
class StatesInMemory final : public ClientStateStore {
 public:
  StatusOr<StateBlob> Read(std::string_view, std::string_view client_id, const TaskId& state_of) override {
    if (state_of.empty()) return StateBlob();
    MutexLock lock(mutex_);
    const auto client = states_.find(client_id);
    if (client != states_.end()) {
      if (const auto found = client->second.find(state_of); found != client->second.end()) return found->second;
    }
    return NotFound("client '{}' has no state of task '{}'", client_id, state_of);
  }
  Status Propose(std::string_view, std::string_view client_id, const TaskId& task, StateBlob state) override {
    MutexLock lock(mutex_);
    states_[std::string(client_id)][task] = std::move(state);
    return absl::OkStatus();
  }
  void Durable(std::string_view, std::string_view client_id, const TaskId& task) override {
    MutexLock lock(mutex_);
    if (const auto client = states_.find(client_id); client != states_.end()) {
      std::erase_if(client->second, [&](const auto& state) { return state.first != task; });
    }
  }
  void Forget(std::string_view, std::string_view client_id, const TaskId& task) override {
    MutexLock lock(mutex_);
    if (const auto client = states_.find(client_id); client != states_.end()) client->second.erase(task);
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::map<TaskId, StateBlob>, std::less<>> states_ GUARDED_BY(mutex_);
};

std::string Said(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "nothing"; }

// The difference between a task's row and the task; "": none. Missing columns are not compared.
std::string Difference(const ClientRoundRow& row, const TaskRecord& record) {
  const auto count = [](const std::optional<int64_t>& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  struct Fact {
    const char* name;
    std::optional<double> recorded, found;
  };
  const Fact facts[] = {{"examples", count(row.examples), count(record.examples)},
                        {"steps", count(row.steps), count(record.steps)},
                        {"train_loss", row.train_loss, record.train_loss},
                        {"update_norm", row.update_norm, record.update_norm}};
  for (const auto& [name, recorded, found] : facts) {
    if (recorded && recorded != found) {
      return fmt::format("its {} is {} in the history, and comes out as {}", name, Said(recorded), Said(found));
    }
  }
  return "";
}

// Noise that cannot be drawn again makes versions that cannot be made again.
Status CheckRepeatable(const Composition& composition, const std::string& run_id) {
  if (composition.aggregation.rule == kExternalRule)
    return FailedPrecondition(
        "run '{}' cannot be replayed: its updates were aggregated by a function in Python, which may differ by now",
        run_id);
  for (const auto* pieces : {&composition.mechanisms, &composition.mean_mechanisms}) {
    for (const PieceSpec& piece : *pieces) {
      RIVULET_ASSIGN_OR_RETURN(const auto mechanism, Mechanism::Create(piece));
      if (mechanism->repeatable()) continue;
      return FailedPrecondition(
          "run '{}' cannot be replayed: its noise came from the system's generator, and only noise of noise_source = "
          "\"seeded\" can be drawn again",
          run_id);
    }
  }
  return absl::OkStatus();
}

// Noise of the run's sums, from the key beside its models. Nullptr: there is none.
StatusOr<std::unique_ptr<RunPrivacy>> NoiseOf(const Scenario& scenario, const Composition& composition,
                                              const std::string& db_path, const std::string& run_id) {
  RunParts parts;
  parts.aggregation = composition.aggregation;
  parts.noise = composition.noise;
  const std::string folder = JoinPath(FolderOf(db_path), History::ModelsFolder(db_path, run_id));
  StatusOr<std::unique_ptr<RunPrivacy>> noise =
      RunPrivacy::Resume(scenario, parts, 1, FileSystem::Default(), folder, {});
  if (noise.ok()) return noise;
  return Annotate(noise.status(), fmt::format("run '{}' cannot be replayed", run_id));
}

// Makes a run's versions, one after another, from its recorded tasks, and has the inputs of these. A LocalTaskServer
// (simulations/launchers/local_task_server.h) replaces the coordinator, without a difference for its sites.
class RecordedVersions final : public TaskInputs {
 public:
  // `training`: ServerTraining, as in CoordinatorOptions; it must outlive this.
  RecordedVersions(const ReplayOptions& options, ServerTraining* training) : options_(options), training_(training) {}

  Status Open(const Scenario& scenario, std::shared_ptr<const Plan> plan) {
    RIVULET_ASSIGN_OR_RETURN(history_, History::Open(options_.db_path, History::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history_->ResolveRun(options_.run));
    run_id_ = run.run_id;
    plan_ = std::move(plan);
    scenario_ = scenario;
    RIVULET_ASSIGN_OR_RETURN(const Composition composition, Compose(scenario, *plan_->layout()));
    RIVULET_RETURN_IF_ERROR(CheckRepeatable(composition, run_id_));
    RIVULET_ASSIGN_OR_RETURN(optimizer_,
                             ServerOptimizer::Create(composition.server_optimizer, scenario_.server.average));
    RIVULET_ASSIGN_OR_RETURN(mean_mechanisms_, MeanMechanisms::Create(composition.mean_mechanisms, scenario.run.seed));
    RIVULET_ASSIGN_OR_RETURN(privacy_, NoiseOf(scenario, composition, history_->real_path(), run_id_));
    RIVULET_ASSIGN_OR_RETURN(number_rule_, NumberRule::For(composition.numbers, composition.number_rule));
    RIVULET_ASSIGN_OR_RETURN(download_, Download::Create(plan_->download(), plan_->layout()));
    dial_ = composition.policy;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history_->Models(run_id_));
    for (const ModelRow& model : models) digests_[model.round] = model.digest;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> rounds, history_->Rounds(run_id_));
    for (const RoundRow& round : rounds) {
      if (round.status != "committed") continue;
      versions_ = std::max(versions_, round.round);
      if (round.selected == 0) empty_.insert(round.round);
    }
    if (versions_ == 0) return FailedPrecondition("run '{}' has no version to replay", run_id_);
    if (options_.first < 1 || options_.first > versions_ || options_.last > versions_ ||
        (options_.last != 0 && options_.last < options_.first)) {
      return InvalidArgument("run '{}' has the rounds 1 to {}; of these {} to {} is no part", run_id_, versions_,
                             options_.first, options_.last == 0 ? versions_ : options_.last);
    }
    if (options_.last != 0) versions_ = options_.last;
    states_.emplace(run_id_);
    MutexLock lock(mutex_);
    RIVULET_ASSIGN_OR_RETURN(current_, options_.first == 1 ? VersionZero() : KeptVersion(models));
    current_.digest = current_.model->ComputeDigest();
    RIVULET_RETURN_IF_ERROR(CheckDigest(options_.first - 1, 0));
    RIVULET_RETURN_IF_ERROR(KeepBase(options_.first - 1));
    return absl::OkStatus();
  }
  const std::string& run_id() const { return run_id_; }
  ClientStateStore* states() { return &kept_; }
  std::string examples_folder() const {
    const std::string& db = history_->real_path();
    return JoinPath(JoinPath(FolderOf(db), History::ModelsFolder(db, run_id_)), kExamplesFolder);
  }

  StatusOr<ReplayResult> Run(LocalTaskServer& slice) {
    for (int64_t version = options_.first; version <= versions_; ++version)
      RIVULET_RETURN_IF_ERROR(Make(version, slice));
    MutexLock lock(mutex_);
    return ReplayResult{run_id_, versions_ - options_.first + 1, done_, current_.digest};
  }

  StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& blob) override {
    MutexLock lock(mutex_);
    for (const auto& [version, base] : bases_) {
      if (blob.digest == base.inputs[0].id.digest) return base.sent;
    }
    return NotFound("there is no model {}", blob.digest.Hex());
  }
  StatusOr<std::string> BytesOf(const BlobId& blob) override {
    if (blob.digest == plan_->digest()) return std::string(plan_->bytes());
    MutexLock lock(mutex_);
    for (const auto& [version, base] : bases_) {
      for (const std::string& name : plan_->flat_names().broadcast) {
        const std::string_view vector = base.state.broadcast(name);
        if (Sha256Of(vector) == blob.digest) return std::string(vector);
      }
    }
    return NotFound("there is no blob {}", blob.digest.Hex());
  }

 private:
  StatusOr<ServerState> VersionZero() const {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Model> initial, InitialModel(*plan_, scenario_.run.seed));
    RIVULET_ASSIGN_OR_RETURN(ServerState first,
                             FirstState(std::move(initial), *optimizer_, [this](std::string_view flat) {
                               return DrawModelFor(*plan_, scenario_.run.seed, flat);
                             }));
    if (number_rule_ != nullptr) first.numbers = std::make_shared<const ServerNumbers>(number_rule_->First());
    return first;
  }
  // The version before the part, from its file. A round starts from a model and the server's own state alone, unless
  // clients keep state too, or their tasks start from earlier versions.
  StatusOr<ServerState> KeptVersion(const std::vector<ModelRow>& models) const {
    const int64_t version = options_.first - 1;
    if (plan_->keeps_state() || dial_.max_staleness > 0) {
      return FailedPrecondition("a part of run '{}' cannot be replayed, since {}; replay it from round 1", run_id_,
                                plan_->keeps_state() ? "its clients keep something from round to round"
                                                     : "its updates start from several versions");
    }
    const auto row = std::ranges::find(models, version, &ModelRow::round);
    if (row == models.end() || row->path.empty()) {
      std::string kept;
      for (const ModelRow& model : models)
        if (!model.path.empty()) kept += fmt::format("{}{}", kept.empty() ? "" : ", ", model.round + 1);
      return FailedPrecondition(
          "the model of round {} of run '{}' was not kept, and a part starts from that of the round before it; begin "
          "with round 1{}{} (run.keep_models = \"all\" keeps each)",
          version, run_id_, kept.empty() ? "" : " or one of ", kept);
    }
    const std::string path = JoinPath(FolderOf(history_->real_path()), row->path);
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
    StatusOr<ServerState> state = ReadServerState(plan_->layout(), bytes);
    if (!state.ok()) return Annotate(state.status(), path);
    RIVULET_RETURN_IF_ERROR(Annotate(CheckState(*state, *optimizer_), path));
    if (number_rule_ != nullptr && state->numbers == nullptr) {
      return DataLoss("{}: it has no numbers, which the server needs to resume", path);
    }
    return state;
  }
  Status CheckDigest(int64_t version, int64_t tasks) REQUIRES(mutex_) {
    const auto recorded = digests_.find(version);
    if (recorded == digests_.end()) {
      return DataLoss("the history has no model of version {} of run '{}'", version, run_id_);
    }
    const std::string first =
        differences_.empty() ? ""
                             : fmt::format("task '{}': {}", differences_.begin()->first, differences_.begin()->second);
    if (recorded->second != current_.digest.Hex()) {
      return DataLoss("version {} of run '{}' is {} in the history, and its {} recorded tasks make {}{}", version,
                      run_id_, recorded->second, tasks, current_.digest.Hex(), first.empty() ? "" : "; " + first);
    }
    if (!first.empty()) {
      return DataLoss("version {} of run '{}' comes out as recorded, and the row of one of its tasks does not: {}",
                      version, run_id_, first);
    }
    return absl::OkStatus();
  }

  Status KeepBase(int64_t version) REQUIRES(mutex_) {
    Base base = {current_, {{"model", {BlobId::Form::kModel, current_.digest}}}, current_.model};
    if (download_ != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(Download::Sent sent, download_->Send(*current_.model, scenario_.run.seed, version));
      base.inputs[0].id.digest = sent.model->ComputeDigest();
      base.sent = std::move(sent.model);
    }
    for (const std::string& name : plan_->flat_names().broadcast) {
      base.inputs.push_back(
          {fmt::format("{}{}", kBroadcastPrefix, name), {BlobId::Form::kBytes, Sha256Of(current_.broadcast(name))}});
    }
    if (base.inputs.size() == 1) base.state.flats.reset();
    bases_[version] = std::move(base);
    return absl::OkStatus();
  }

  Status Make(int64_t version, LocalTaskServer& slice) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<Task> tasks, TasksOf(version));
    RIVULET_ASSIGN_OR_RETURN(LocalTaskServer::Done done, slice.Do(std::move(tasks)));
    if (!done.failures.empty()) {  // it was aggregated in the run
      const TaskFailure& failure = done.failures[0];
      return FailedPrecondition("task '{}' of round {} cannot be replayed: {}", failure.task, version,
                                failure.sentence);
    }
    RIVULET_ASSIGN_OR_RETURN(auto aggregation, Aggregation::Create(plan_->aggregation()));
    for (auto& [gather, folded] : done.folded) {
      RIVULET_RETURN_IF_ERROR(aggregation->Merge(std::move(folded.partial)));
      for (const TaskRecord& record : folded.records) {
        if (std::string difference = Difference(rows_.at(record.task), record); !difference.empty()) {
          differences_[record.task] = std::move(difference);
        }
      }
    }
    MutexLock lock(mutex_);
    return Finish(version, std::move(aggregation));
  }

  StatusOr<std::vector<Task>> TasksOf(int64_t version) {
    rows_.clear();
    std::vector<Task> tasks;
    RIVULET_ASSIGN_OR_RETURN(const auto rows, history_->ClientRounds(run_id_, version));
    MutexLock lock(mutex_);
    for (const ClientRoundRow& row : rows) {
      const bool in = row.status == Name(TaskEnd::kFolded) && row.kind == Name(TaskKind::kTrain) &&
                      row.committed_round.value_or(row.round) == version;
      if (!in) continue;
      const auto name = TaskNameOf(row.task_id, run_id_);
      const auto base = bases_.find(row.base_round);
      if (!name || base == bases_.end()) {
        return DataLoss("task '{}' of version {} of run '{}' cannot start from version {}", row.task_id, version,
                        run_id_, row.base_round);
      }
      Task task;
      task.id = row.task_id;
      task.run_id = run_id_;
      task.client_id = row.client_id;
      task.base_version = row.base_round;
      task.ordinal = static_cast<uint16_t>(name->ordinal);
      task.stream_key = ClientKey(scenario_.run.seed, row.client_id);
      task.plan = plan_->digest();
      task.inputs = base->second.inputs;
      if (number_rule_ != nullptr) task.numbers = number_rule_->Of(*base->second.state.numbers, row.client_id);
      if (plan_->keeps_state()) task.state_of = states_->Of(row.client_id);
      task.gather = static_cast<uint64_t>(version) << 32 | static_cast<uint64_t>(row.base_round);
      rows_.emplace(task.id, row);
      tasks.push_back(std::move(task));
    }
    if (tasks.empty() && !empty_.contains(version)) {
      return DataLoss("the history has no task of version {} of run '{}'", version, run_id_);
    }
    return tasks;
  }

  Status Finish(int64_t version, std::unique_ptr<Aggregation> aggregation) REQUIRES(mutex_) {
    const int64_t tasks = std::ssize(rows_);
    std::vector<ReportedLoss> told;
    for (const auto& [task, row] : rows_) {
      if (row.train_loss) told.push_back({task, row.client_id, row.examples.value_or(0), *row.train_loss});
    }
    RIVULET_ASSIGN_OR_RETURN(
        static_cast<ServerState&>(current_),
        MakeVersion(current_, std::move(aggregation), StalenessOf(version, dial_.staleness_exponent),
                    {*optimizer_, ServerLearningRate(scenario_.server, version), &mean_mechanisms_, version, training_,
                     number_rule_.get(), told, privacy_ == nullptr ? nullptr : privacy_->noise()},
                    nullptr, options_.instruments.tracer));
    RIVULET_RETURN_IF_ERROR(CheckDigest(version, tasks));
    RIVULET_RETURN_IF_ERROR(KeepBase(version));
    std::erase_if(bases_, [&](const auto& base) { return base.first < version - dial_.max_staleness; });
    done_ += tasks;
    for (const auto& [task, row] : rows_) {
      states_->Folded(task);
      kept_.Durable(run_id_, row.client_id, task);
    }
    if (options_.on_version) options_.on_version(version, versions_);
    return absl::OkStatus();
  }

  const ReplayOptions& options_;
  ServerTraining* const training_;
  std::unique_ptr<History> history_;
  std::string run_id_;
  Scenario scenario_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<const ServerOptimizer> optimizer_;
  MeanMechanisms mean_mechanisms_;
  std::unique_ptr<RunPrivacy> privacy_;  // null: no noise on sums
  std::unique_ptr<const NumberRule> number_rule_;
  std::unique_ptr<const Download> download_;
  TaskPolicy dial_;
  std::map<int64_t, std::string> digests_;  // recorded, by version
  int64_t versions_ = 0;
  std::set<int64_t> empty_;  // versions without updates
  StatesInMemory kept_;
  std::optional<StateBook> states_;

  Mutex mutex_;                             // sites read the inputs of tasks
  ServerState current_ GUARDED_BY(mutex_);  // the newest version
  struct Base {
    ServerState state;                  // without flats that no client reads
    std::vector<NamedBlob> inputs;      // of its tasks
    std::shared_ptr<const Model> sent;  // the base model of its tasks
  };
  std::map<int64_t, Base> bases_ GUARDED_BY(mutex_);  // possible base versions of the next version's tasks
  int64_t done_ GUARDED_BY(mutex_) = 0;               // tasks
  std::map<TaskId, ClientRoundRow> rows_;             // of the version that is being made
  std::map<TaskId, std::string> differences_;
};

}  // namespace

StatusOr<ReplayResult> Replay(const ReplayOptions& given) {
  ReplayOptions options = given;
  if (options.workers == 0) options.workers = AvailableCores();
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> kept_plan, PlanOfStoredRun(options.db_path, options.run));
  RunSetup setup(options.scenario, {.plan = std::move(kept_plan)});
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<ServerTraining> training, FineTuning(setup));
  RecordedVersions run(options, training.get());
  RIVULET_RETURN_IF_ERROR(run.Open(options.scenario, plan));
  RIVULET_ASSIGN_OR_RETURN(const auto clients, VirtualClients::Create(setup, plan->keeps_state()));
  LocalTaskServer slice(*plan, run, options.workers);
  SiteThreads sites(slice, *clients,
                    {.threads = options.workers,
                     .site = {.name = "worker",
                              .run_id = run.run_id(),
                              .version = "replay",
                              .calls = {.max_plan_bytes = kAnyBytes},  // of this process
                              .instruments = options.instruments,
                              .states = run.states(),
                              .example_keys =
                                  [&run](const Task& task, std::string_view, const Plan& of, const ExampleData& data) {
                                    return ExampleAccounts::KeyOf(FileSystem::Default(), run.examples_folder(), task,
                                                                  of, data);
                                  }},
                     .on_error = [&slice](const Status& status) { slice.End(status); }});
  sites.Start();
  StatusOr<ReplayResult> result = run.Run(slice);
  slice.End(absl::OkStatus());
  sites.Join();
  return result;
}

}  // namespace rivulet
