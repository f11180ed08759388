#include "simulations/replay.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "coordinator/commit/commit.h"
#include "coordinator/history/history.h"
#include "coordinator/ledger/state_book.h"
#include "coordinator/stored_run.h"
#include "engine/base/available_cores.h"
#include "engine/base/mutex.h"
#include "federated/aggregation/staleness.h"
#include "federated/algorithms/algorithm.h"
#include "federated/random/streams.h"
#include "federated/server_optimizers/server_rate.h"
#include "federated/states/state_store.h"
#include "setup/run_setup.h"
#include "simulations/site_threads.h"
#include "simulations/virtual_clients.h"

namespace rivulet {
namespace {

constexpr int64_t kLongMs = 60'000;

// What clients keep between tasks of the run that is replayed; a run's own lies on its disk, and goes on from the end.
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

// All of them in one piece, which `holder` holds.
class BytesReader final : public ChunkReader {
 public:
  BytesReader(std::shared_ptr<const void> holder, std::string_view bytes, int64_t offset)
      : holder_(std::move(holder)), bytes_(std::as_bytes(std::span(bytes))), offset_(offset) {}
  int64_t total_bytes() const override { return std::ssize(bytes_); }
  StatusOr<std::span<const std::byte>> Next() override {
    const auto rest = bytes_.subspan(static_cast<size_t>(offset_));
    offset_ = total_bytes();
    return rest;
  }

 private:
  const std::shared_ptr<const void> holder_;
  const std::span<const std::byte> bytes_;
  int64_t offset_;
};

std::string Said(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "nothing"; }

// What a task's row says otherwise than the task itself; "": nothing. What the row does not say is not asked.
std::string Difference(const ClientRoundRow& row, const TaskRecord& record) {
  const auto declared = record.declared.find("train_loss");
  const std::optional<double> loss = declared == record.declared.end() ? std::nullopt : std::optional(declared->second);
  const auto count = [](const std::optional<int64_t>& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  struct Fact {
    const char* name;
    std::optional<double> recorded, found;
  };
  const Fact facts[] = {{"examples", count(row.examples), static_cast<double>(record.examples)},
                        {"steps", count(row.steps), static_cast<double>(record.steps)},
                        {"train_loss", row.train_loss, loss},
                        {"update_norm", row.update_norm, record.norm}};
  for (const auto& [name, recorded, found] : facts) {
    if (recorded && recorded != found) {
      return fmt::format("its {} is {} in the history, and comes out as {}", name, Said(recorded), Said(found));
    }
  }
  return "";
}

// Noise that nobody can draw again makes versions that nobody can make again.
Status CheckRepeatable(const Composition& composition, const std::string& run_id) {
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

// In the place of the coordinator: gives the recorded tasks of one version after the other to sites that do not know
// the difference.
class RecordedTasks final : public CoordinatorApi {
 public:
  explicit RecordedTasks(const ReplayOptions& options) : options_(options) {}

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
    dial_ = composition.dial;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history_->Models(run_id_));
    for (const ModelRow& model : models) digests_[model.round] = model.digest;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> rounds, history_->Rounds(run_id_));
    for (const RoundRow& round : rounds) {
      if (round.status == "committed") versions_ = std::max(versions_, round.round);
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
    KeepBase(options_.first - 1);
    return Begin(options_.first);
  }
  const std::string& run_id() const { return run_id_; }
  ClientStateStore* states() { return &kept_; }

  StatusOr<ReplayResult> Result() {
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(error_);
    return ReplayResult{run_id_, versions_ - options_.first + 1, done_, current_.digest};
  }
  void Fail(const Status& status) {
    MutexLock lock(mutex_);
    End(status);
  }

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex_);
    PollReply reply;
    for (const TaskProgress& progress : request.working_on) {
      const auto task = out_.find(progress.task);
      if (!progress.held || task == out_.end()) continue;
      held_[request.caller.name].push_back(progress.task);
      out_.erase(task);
      if (out_.empty() && queue_.empty()) News();
    }
    if (over_) reply.over = PollReply::Over{.failed = !error_.ok(), .sentence = std::string(Message(error_))};
    // Half of an even share, so that nobody waits long for the last ones.
    const int64_t share = std::max<int64_t>(std::ssize(queue_) / (2 * std::max(options_.workers, 1)), 1);
    for (int64_t left = std::min(request.want, share); left > 0 && !queue_.empty() && !over_; --left) {
      out_.insert(queue_.front().id);
      reply.tasks.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    if (const auto held = held_.find(request.caller.name); held != held_.end() && out_.empty() && queue_.empty()) {
      std::map<uint64_t, std::vector<TaskId>> gathers;
      for (const TaskId& task : held->second) gathers[gather_.at(task)].push_back(task);
      for (auto& [gather, tasks] : gathers) reply.hand_over.push_back({gather, std::move(tasks)});
    }
    reply.wait_ms = kLongMs;
    reply.epoch = epoch_;
    return reply;
  }
  void AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    MutexLock lock(mutex_);
    while (epoch_ == epoch && std::chrono::steady_clock::now() < until) {
      work_.WaitFor(mutex_, until - std::chrono::steady_clock::now());
    }
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    if (blob.digest == plan_->digest()) {
      return std::make_unique<BytesReader>(plan_, plan_->bytes(), offset);
    }
    MutexLock lock(mutex_);
    for (const auto& [version, base] : bases_) {
      for (const std::string& name : plan_->flat_names().broadcast) {
        const std::string_view vector = base.state.broadcast(name);
        if (Sha256Of(vector) == blob.digest) return std::make_unique<BytesReader>(base.state.flats, vector, offset);
      }
    }
    return NotFound("there is no blob {}", blob.digest.Hex());
  }
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller&, const BlobId& blob) override {
    MutexLock lock(mutex_);
    for (const auto& [version, base] : bases_) {
      if (blob.digest == base.state.digest) return base.state.model;
    }
    return NotFound("there is no model {}", blob.digest.Hex());
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return Unimplemented("a replay takes what its sites have folded");
  }
  // It was folded once.
  Status Fail(const Caller&, const TaskFailure& failure) override {
    Fail(FailedPrecondition("task '{}' of round {} cannot be replayed: {}", failure.task, Version(), failure.sentence));
    return absl::OkStatus();
  }
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override {
    MutexLock lock(mutex_);
    if (over_) return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
    RIVULET_RETURN_IF_ERROR(aggregation_->Merge(std::move(partial)));
    for (const TaskRecord& record : records) {
      out_.erase(record.task);
      std::erase(held_[caller.name], record.task);
      if (std::string difference = Difference(rows_.at(record.task), record); !difference.empty()) {
        differences_[record.task] = std::move(difference);
      }
    }
    merged_ += std::ssize(records);
    if (merged_ < std::ssize(rows_)) {
      if (out_.empty() && queue_.empty()) News();
      return SubmitResult{};
    }
    if (const Status status = Finish(); !status.ok()) End(status);
    return SubmitResult{};
  }

 private:
  StatusOr<ServerState> VersionZero() const {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Model> initial, InitialModel(*plan_, scenario_.run.seed));
    return FirstState(std::move(initial), *optimizer_);
  }
  // That before the part, from its file. A model and what the server keeps with it are all that a round starts from,
  // unless clients keep something too, or their tasks start from versions before it.
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
    return state;
  }
  int64_t Version() {
    MutexLock lock(mutex_);
    return version_;
  }
  void News() REQUIRES(mutex_) {
    ++epoch_;
    work_.NotifyAll();
  }
  void End(const Status& status) REQUIRES(mutex_) {
    if (!over_) error_ = status;
    over_ = true;
    News();
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

  void KeepBase(int64_t version) REQUIRES(mutex_) {
    Base base = {current_, {{"model", {BlobId::Form::kModel, current_.digest}}}};
    for (const std::string& name : plan_->flat_names().broadcast) {
      base.inputs.push_back(
          {fmt::format("{}{}", kBroadcastPrefix, name), {BlobId::Form::kBytes, Sha256Of(current_.broadcast(name))}});
    }
    if (base.inputs.size() == 1) base.state.flats.reset();
    bases_[version] = std::move(base);
  }

  Status Begin(int64_t version) REQUIRES(mutex_) {
    version_ = version;
    rows_.clear();
    gather_.clear();
    merged_ = 0;
    RIVULET_ASSIGN_OR_RETURN(aggregation_, Aggregation::Create(plan_->aggregation()));
    RIVULET_ASSIGN_OR_RETURN(const auto rows, history_->ClientRounds(run_id_, version));
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
      if (plan_->keeps_state()) task.state_of = states_->Of(row.client_id);
      task.gather = static_cast<uint64_t>(version) << 32 | static_cast<uint64_t>(row.base_round);
      gather_[task.id] = task.gather;
      rows_.emplace(task.id, row);
      queue_.push_back(std::move(task));
    }
    if (rows_.empty()) return DataLoss("the history has no task of version {} of run '{}'", version, run_id_);
    News();
    return absl::OkStatus();
  }

  Status Finish() REQUIRES(mutex_) {
    const int64_t tasks = std::ssize(rows_);
    RIVULET_ASSIGN_OR_RETURN(
        static_cast<ServerState&>(current_),
        MakeVersion(current_, std::move(aggregation_), StalenessOf(version_, dial_.staleness_exponent),
                    {*optimizer_, ServerLearningRate(scenario_.server, version_), &mean_mechanisms_, version_}, nullptr,
                    options_.instruments.tracer));
    RIVULET_RETURN_IF_ERROR(CheckDigest(version_, tasks));
    KeepBase(version_);
    std::erase_if(bases_, [&](const auto& base) { return base.first < version_ - dial_.max_staleness; });
    done_ += tasks;
    for (const auto& [task, row] : rows_) {
      states_->Folded(task);
      kept_.Durable(run_id_, row.client_id, task);
    }
    if (options_.on_version) options_.on_version(version_, versions_);
    if (version_ < versions_) return Begin(version_ + 1);
    End(absl::OkStatus());
    return absl::OkStatus();
  }

  const ReplayOptions& options_;
  std::unique_ptr<History> history_;
  std::string run_id_;
  Scenario scenario_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<const ServerOptimizer> optimizer_;
  MeanMechanisms mean_mechanisms_;
  Dial dial_;
  std::map<int64_t, std::string> digests_;  // recorded, by version
  int64_t versions_ = 0;
  StatesInMemory kept_;
  std::optional<StateBook> states_;

  Mutex mutex_;
  CondVar work_;
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;
  bool over_ GUARDED_BY(mutex_) = false;
  Status error_ GUARDED_BY(mutex_);
  ServerState current_ GUARDED_BY(mutex_);  // the newest version
  struct Base {
    ServerState state;              // without flats that no client reads
    std::vector<NamedBlob> inputs;  // of its tasks
  };
  std::map<int64_t, Base> bases_ GUARDED_BY(mutex_);  // the versions that tasks of the next one may start from
  // Of the version that is being made.
  int64_t version_ GUARDED_BY(mutex_) = 0, merged_ GUARDED_BY(mutex_) = 0, done_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Aggregation> aggregation_ GUARDED_BY(mutex_);
  std::map<TaskId, ClientRoundRow> rows_ GUARDED_BY(mutex_);
  std::map<TaskId, uint64_t> gather_ GUARDED_BY(mutex_);
  std::deque<Task> queue_ GUARDED_BY(mutex_);
  std::set<TaskId> out_ GUARDED_BY(mutex_);
  std::map<std::string, std::vector<TaskId>> held_ GUARDED_BY(mutex_);  // by site
  std::map<TaskId, std::string> differences_ GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<ReplayResult> Replay(const ReplayOptions& given) {
  ReplayOptions options = given;
  if (options.workers == 0) options.workers = AvailableCores();
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> kept_plan, PlanOfStoredRun(options.db_path, options.run));
  RunSetup setup(options.scenario, {.plan = std::move(kept_plan)});
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, setup.plan());
  RecordedTasks run(options);
  RIVULET_RETURN_IF_ERROR(run.Open(options.scenario, plan));
  std::unique_ptr<const ClientData> data;
  const UpdateChange* change = nullptr;
  if (setup.scenario().attack.name.empty()) {
    data = std::make_unique<SharedData>(train, shares, setup.scenario().data.name);
  } else {
    RIVULET_ASSIGN_OR_RETURN(auto adversaries,
                             Adversaries::Create(setup.scenario(), plan->keeps_state(), train, shares));
    change = adversaries.get();
    data = std::move(adversaries);
  }
  ArtifactCache artifacts("", setup.row_budget());
  StopSignal stop;
  std::vector<std::thread> threads;
  for (int number = 0; number < options.workers; ++number) {
    threads.emplace_back([&, number] {
      SiteOptions site;
      site.name = fmt::format("worker {}", number);
      site.run_id = run.run_id();
      site.version = "replay";
      site.holds = number < cores;
      site.instruments = options.instruments;
      site.states = run.states();
      site.change = change;
      if (const Status status = Site(run, *data, artifacts, stop, std::move(site)).Run(); !status.ok())
        run.Fail(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return run.Result();
}

}  // namespace rivulet
