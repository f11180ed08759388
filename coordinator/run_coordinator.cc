#include "coordinator/run_coordinator.h"

#include <algorithm>
#include <chrono>

#include "coordinator/intake/site_partial.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

// Of either kind of cohort. What measures a version brings numbers alone, of however many clients.
int64_t MostPartialBytes(const RunParts& parts, const EvaluationConfig& evaluation) {
  AggregationSpec measures = parts.evaluation;
  measures.updates_per_version = std::max(evaluation.federated_clients, parts.aggregation.updates_per_version);
  return std::max(MostSitePartialBytes(parts.aggregation), MostSitePartialBytes(measures));
}

}  // namespace

RunCoordinator::RunCoordinator(Setup setup)
    : options_(std::move(setup.options)),
      parts_(std::move(setup.parts)),
      optimizer_(std::move(setup.optimizer)),
      mean_mechanisms_(std::move(setup.mean_mechanisms)),
      number_rule_(std::move(setup.number_rule)),
      run_id_(std::move(setup.run_id)),
      resumed_(setup.resumed),
      already_finished_(setup.already_finished),
      first_version_(setup.current.row.round + 1),
      max_update_bytes_(MostUpdateBytes(parts_.aggregation)),
      max_partial_bytes_(MostPartialBytes(parts_, options_.scenario.evaluation)),
      clock_(options_.now_ms),
      history_(std::move(setup.history)),
      events_(run_id_, options_.observer, history_, clock_, [this] { Wake(); }),
      models_(std::move(setup.models)),
      // Synced each: a version that names one may be the next thing that is written.
      kept_(parts_.keeps_state
                ? NewStateStore(options_.file_system != nullptr ? *options_.file_system : FileSystem::Default(),
                                FolderOf(models_->folder()), true)
                : nullptr),
      keeps_reports_(options_.scenario.server.checkpoint_reports),
      reports_(options_.file_system != nullptr ? *options_.file_system : FileSystem::Default(), models_->folder()),
      intake_(models_->folder(), options_.scenario.server.staging_megabytes * 1'000'000),
      versions_(std::move(setup.current), std::move(setup.before)),
      stop_rule_(std::move(setup.stop_rule)),
      last_round_(setup.last_round),
      machine_(*std::move(setup.machine)),
      states_(run_id_),
      clients_(run_id_, options_, parts_, resumed_, history_, clock_, events_, distrusted_, *this),
      writer_(*history_, *models_, ThreadExecutor("writes", 1), Clock::System(), WriterOptions(), setup.model_rows,
              first_version_ - 1) {
  if (parts_.measures_state) states_.AskedFrom(machine_.oldest_to_measure());
  for (const TaskId& task : setup.folded) states_.Folded(task);
  for (const std::string& why : reports_.FindPartials()) {
    events_.Tell(events_.Note(
        "warning",
        fmt::format("a partial that was acknowledged before the restart cannot be counted: {}; its updates are "
                    "asked for again",
                    why),
        first_version_));
  }
  thread_ = std::thread([this] { RunThread(); });
}

// The last callbacks may still stand in the queue when the thread has ended; whoever observes the run is to hear its
// end.
RunCoordinator::~RunCoordinator() {
  Stop();
  thread_.join();
  events_.Drain();
}

VersionWriter::Options RunCoordinator::WriterOptions() {
  const RunConfig& run = options_.scenario.run;
  VersionWriter::Options options;
  options.durability = run.durability.empty() ? options_.enforce_deadline ? Durability::kRound : Durability::kSecond
                                              : DurabilityOf(run.durability);
  options.keep_all_models = run.keep_models == "all";
  options.keep_best_model = run.keep_models == "best";
  if (options.keep_best_model) {
    // Where they cannot be read, the run cannot go on either, and its first write says why.
    std::map<int64_t, std::map<std::string, Measure>> central;
    if (const auto metrics = history_->Metrics(run_id_); metrics.ok()) {
      for (const MetricRow& metric : *metrics)
        if (metric.value) central[metric.round][metric.name] = {*metric.value, metric.right, metric.total};
    }
    for (const auto& [round, measures] : central)
      if (const std::optional<double> worth = WorthOf(measures)) options.worths[round] = *worth;
  }
  options.on_written = [this](std::span<const PendingAttempt> attempts) { OnWritten(attempts); };
  options.on_failed = [this](const Status& status) { OnWriteFailed(status); };
  options.on_log_held = [this](int64_t seconds, int64_t bytes) { OnLogHeld(seconds, bytes); };
  options.tracer = options_.tracer;
  return options;
}

// Whoever has an update in it may let go of what a crash would have brought back.
void RunCoordinator::OnWritten(std::span<const PendingAttempt> attempts) {
  std::vector<RoundRow> rows;
  for (const PendingAttempt& pending : attempts)
    if (pending.attempt.kind == TaskKind::kTrain) rows.push_back(*pending.row);
  for (const PendingAttempt& pending : attempts) clients_.Written(pending);
  {
    MutexLock lock(mutex_);
    for (const RoundRow& row : rows) CountTotals(row);
    for (const PendingAttempt& pending : attempts) {
      if (pending.attempt.kind == TaskKind::kEvaluate) measured_.erase(pending.attempt.round);
      if (pending.end.status != "committed" || kept_ == nullptr) continue;
      for (const auto& [lease, facts] : pending.attempt.tasks) {
        if (lease.state == Lease::State::kFolded && facts.left_state) superseding_.push_back(lease.task);
      }
    }
    unwritten_ -= std::ssize(attempts);
    changed_.NotifyAll();
  }
  ForgetReports(attempts);
  ForgetSuperseded();
}

// Versions that are ready beyond the last one that is written are lost with the process; what is resumed makes them
// again, to the same bits.
void RunCoordinator::OnLogHeld(int64_t seconds, int64_t log_bytes) {
  events_.Tell(events_.Note(
      "warning",
      fmt::format("somebody has been reading one state of the history '{}' for {} s, so that its log cannot be used "
                  "again and has grown to {} MB; end that reader (a transaction left open in a notebook, say)",
                  history_->path(), seconds, log_bytes / 1'000'000),
      Round()));
}

void RunCoordinator::OnWriteFailed(const Status& status) {
  MutexLock lock(mutex_);
  failure_ = status;
  Feed(VersionFailed{std::string(Message(status))});
}

// The one way into the machine, always under mutex_. What an action costs decides where it is carried out: what only
// touches memory is done here, at once, so that the record and the machine never differ; commits and abandoned attempts
// go to the run's own thread, as a large model takes a second; and callbacks wait in a queue until no lock is held.
std::vector<Action> RunCoordinator::Feed(const Event& event, std::vector<Action> room) {
  const bool was_over = machine_.over();
  const int64_t offered = machine_.offered();
  std::vector<Action> actions = machine_.On(event, clock_.Now(), std::move(room));
  // A site that waits hears of tasks that it may take, new ones or such as another site had, and of what it is to hand
  // over; of the end below.
  const bool work = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    const auto* offer = std::get_if<Offer>(&action);
    return offer != nullptr && !offer->again;
  });
  const bool for_sites = work || machine_.offered() > offered;
  bool news = for_sites || (machine_.over() && !was_over);
  if (for_sites && listener_ != nullptr) {
    for (const auto& [site, heard] : machine_.sites()) listener_->OnNews(site);
    for (const std::string& aggregator : aggregators_) listener_->OnNews(aggregator);
  }
  std::shared_ptr<Attempt> closed;  // by the Close that goes before what becomes of it
  // Copied: the machine clears its own once the job is done, and polls change them until then.
  std::vector<Lease> leases;
  for (const Action& action : actions) {
    RIVULET_VLOG(1, "{}", rivulet::Describe(action, run_id_));
    if (options_.observer.on_action) {
      events_.Later([this, text = rivulet::Describe(action, run_id_)] { options_.observer.on_action(text); });
    }
    if (const auto* hand_over = std::get_if<HandOverPartial>(&action)) {
      news = true;
      if (listener_ != nullptr) listener_->OnNews(hand_over->site);
    } else if (const auto* offer = std::get_if<Offer>(&action)) {
      if (offer->again) {
        TaskEntry& record = AttemptOf(offer->lease.kind)->tasks.at(offer->lease.task);
        if (!record.taken) record.taken = clock_.Now();
      } else {
        BeginTask(*offer);
        if (listener_ != nullptr) listener_->OnNews(offer->lease.client_id);
        if (options_.observer.on_offer) {
          events_.Later([this, client_id = offer->lease.client_id] { options_.observer.on_offer(client_id); });
        }
      }
    } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
      wake_at_ = wake->time;
      changed_.NotifyAll();
    } else if (const auto* close = std::get_if<Close>(&action)) {
      leases = machine_.leases(close->kind);
      closed = CloseAttempt(*close, leases);
    } else if (const auto* commit = std::get_if<Commit>(&action)) {
      jobs_.push_back({*commit, closed, std::move(leases)});
      changed_.NotifyAll();
    } else if (const auto* abandon = std::get_if<Abandon>(&action)) {
      jobs_.push_back({*abandon, closed, std::move(leases)});
      changed_.NotifyAll();
    } else if (const auto* evaluated = std::get_if<Evaluated>(&action)) {
      jobs_.push_back({*evaluated, closed, std::move(leases)});
      changed_.NotifyAll();
    }
  }
  if (machine_.over()) {
    changed_.NotifyAll();
    if (!was_over && listener_ != nullptr) listener_->OnNews("");
  }
  if (news) {
    ++epoch_;
    work_.NotifyAll();
  }
  return actions;
}

// An attempt's records lie in an object of their own, shared with the uploads and the commit that work on it. When the
// next attempt begins, theirs stays as it is for as long as they need it, and nobody has to be waited for.
void RunCoordinator::BeginAttempt(TaskKind kind, int64_t round, int64_t number) {
  std::shared_ptr<Attempt>& attempt = AttemptOf(kind);
  if (attempt != nullptr && attempt->round == round && attempt->number == number) return;
  attempt = std::make_shared<Attempt>();
  attempt->kind = kind;
  attempt->round = round;
  attempt->number = number;
  attempt->started_unix_ms = clock_.UnixMs();
  attempt->started = clock_.Now();
  attempt->traced_from = ProfileNanos();
  attempt->tasks.reserve(static_cast<size_t>(std::clamp<int64_t>(options_.scenario.server.clients_asked(), 0, 65'536)));
  auto aggregation = Aggregation::Create(kind == TaskKind::kTrain ? parts_.aggregation : parts_.evaluation);
  RIVULET_CHECK(aggregation.ok(), "{}", Message(aggregation.status()));  // was created once before
  attempt->accumulator = std::make_unique<RoundAccumulator>(*std::move(aggregation));
}

std::shared_ptr<RunCoordinator::Attempt> RunCoordinator::AttemptOf(const TaskId& task) {
  const Lease* const lease = machine_.FindLease(task);
  return lease == nullptr ? nullptr : AttemptOf(lease->kind);
}

RunCoordinator::TaskEntry* RunCoordinator::EntryOf(const TaskId& task) {
  const std::shared_ptr<Attempt> attempt = AttemptOf(task);
  if (attempt == nullptr || !attempt->open) return nullptr;
  const auto found = attempt->tasks.find(task);
  return found == attempt->tasks.end() ? nullptr : &found->second;
}

// A process that died may have made versions that died with it, and given out tasks that start from them. This one
// makes these versions again, of whoever is there now, and its tasks bear the same names; what was trained from the
// version that is lost must not get into the one after the version that took its place. So of tasks that start from a
// version of its own it believes only those who have had them from it; they are given again to whoever polls.
bool RunCoordinator::MayHave(const TaskId& task) {
  const TaskEntry* const entry = resumed_ ? EntryOf(task) : nullptr;
  return entry == nullptr || entry->taken || entry->base_version < first_version_;
}

void RunCoordinator::BeginTask(const Offer& offer) {
  BeginAttempt(offer.lease.kind, offer.round, offer.attempt);
  Attempt& attempt = *AttemptOf(offer.lease.kind);
  TaskEntry& entry = attempt.tasks[offer.lease.task];
  entry.offered = clock_.Now();
  entry.base_version = offer.lease.base_round;
  entry.gather = offer.gather;
  attempt.gathers[offer.gather] = offer.lease.base_round;
  if (resumed_) {
    if (reports_.TakeLeft(offer.lease.task)) {
      left_.push_back({offer.lease.task, offer.lease.client_id, offer.round, std::nullopt});
    }
    if (auto partial = reports_.TakeLeftPartial(offer.lease.task)) {
      left_.push_back({offer.lease.task, offer.lease.client_id, offer.round, std::move(partial)});
    }
    changed_.NotifyAll();
  }
  if (options_.tracer != nullptr) {
    options_.tracer->Arrow(options_.tracer->Row("coordinator", "rounds"), Tracer::Flow::kStart, Tracer::kTask,
                           offer.lease.task);
  }
}

// An upload that is still on its way would be written in full to be refused at its end; it is cut off now, and its
// client may take part in the next round. Where tasks outlive versions, what is still out goes on towards the next one,
// and whatever of it is on its way.
std::shared_ptr<RunCoordinator::Attempt> RunCoordinator::CloseAttempt(const Close& close,
                                                                      std::span<const Lease> leases) {
  BeginAttempt(close.kind, close.round, close.attempt);  // one that nobody could be drawn for has no task
  const std::shared_ptr<Attempt> attempt = AttemptOf(close.kind);
  attempt->closed = clock_.Now();
  attempt->open = false;
  for (const Lease& lease : leases) {
    if (lease.state != Lease::State::kFolded) intake_.Cancel(lease.task, lease.reason);
  }
  std::vector<TaskId> going_on;
  for (const auto& [task, entry] : attempt->tasks) {
    if (parts_.policy.base == TaskPolicy::Base::kCommitted || close.kind != TaskKind::kTrain) break;
    const Lease* const lease = machine_.FindLease(task);
    if (lease != nullptr && !lease->resolved()) going_on.push_back(task);
  }
  if (going_on.empty()) {
    for (const std::string& key : attempt->arriving) intake_.Cancel(key, "its round was closed before it was whole");
    return attempt;
  }
  BeginAttempt(close.kind, close.round + 1, 1);
  Attempt& next = *AttemptOf(close.kind);
  next.arriving = std::exchange(attempt->arriving, {});
  for (const TaskId& task : going_on) {
    auto entry = attempt->tasks.extract(task);
    next.gathers[entry.mapped().gather] = entry.mapped().base_version;
    next.tasks.insert(std::move(entry));
  }
  return attempt;
}

void RunCoordinator::BeginRun() {
  if (begun_) return;
  begun_ = true;
  changed_.NotifyAll();
  if (!machine_.over()) Feed(Tick{});
  events_.Begin();
}

// Whoever calls moves the clock on too: a client that polls just after a deadline must not be answered from before it,
// whenever the run's thread wakes.
void RunCoordinator::TickIfDue() {
  if (wake_at_ != 0 && clock_.Now() >= wake_at_) {
    wake_at_ = 0;
    Feed(Tick{});
  }
}

// An update that its site holds is in as much as one that is folded here: it only waits for the others.
void RunCoordinator::TellProgress() {
  // While a version is being made, what the machine counts is in that.
  if (attempt_ == nullptr || attempt_->round > machine_.round()) return;
  const int64_t done = machine_.CountInState(Lease::State::kFolded) + machine_.CountInState(Lease::State::kHeld);
  if (done <= attempt_->told_progress) return;
  attempt_->told_progress = done;
  events_.Heard();
  if (!options_.observer.on_progress) return;
  events_.Later([this, round = attempt_->round, done, selected = static_cast<int64_t>(attempt_->tasks.size())] {
    options_.observer.on_progress(round, done, selected);
  });
}

Status RunCoordinator::Wait() {
  {
    MutexLock lock(mutex_);
    BeginRun();
  }
  return events_.WaitUntilEnd();
}

void RunCoordinator::Stop() {
  {
    MutexLock lock(mutex_);
    begun_ = true;
    changed_.NotifyAll();
    Feed(Operator{});
  }
  events_.Drain();
}

std::shared_ptr<const Model> RunCoordinator::model() const { return versions_.current()->model; }

void RunCoordinator::Wake() {
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

// Commits go before deadlines, as a deadline of the attempt that is being committed means nothing any more, and both
// before callbacks.
void RunCoordinator::RunThread() {
  if (options_.tracer != nullptr) options_.tracer->NameThread("commits");
  mutex_.Lock();
  while (!begun_ || !machine_.over() || !jobs_.empty()) {
    if (!jobs_.empty()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      mutex_.Unlock();
      CloseJob(std::move(job));
      mutex_.Lock();
    } else if (!left_.empty()) {
      const LeftReport left = left_.front();
      mutex_.Unlock();
      CountLeft(left);
      mutex_.Lock();
      left_.pop_front();
      changed_.NotifyAll();
    } else if (wake_at_ != 0 && clock_.Now() >= wake_at_) {
      TickIfDue();
    } else if (events_.HasWork()) {
      mutex_.Unlock();
      events_.Drain();
      mutex_.Lock();
    } else if (events_.quiet_until() != 0 && clock_.Now() >= events_.quiet_until()) {
      LogWaiting();
    } else if (const TimeMs next = NextWake(); next != 0) {
      changed_.WaitFor(mutex_, std::chrono::milliseconds(next - clock_.Now()));
    } else {
      changed_.Wait(mutex_);
    }
  }
  mutex_.Unlock();
  clients_.WhileNobodyJoins([] {});
  EndRun();
  (void)events_.WaitUntilEnd();
}

void RunCoordinator::LogWaiting() {
  events_.Heard();
  if (machine_.phase() == RunMachine::Phase::kWaiting || machine_.phase() == RunMachine::Phase::kEvaluating) {
    events_.Say(events_.Note("info", "waiting: " + machine_.Awaited(clock_.Now()), machine_.round()));
  } else if (machine_.phase() == RunMachine::Phase::kTraining) {
    events_.Say(events_.Note(
        "info",
        fmt::format("waiting: {} of {} updates of round {} are in", machine_.CountInState(Lease::State::kFolded),
                    attempt_->tasks.size(), machine_.round()),
        machine_.round()));
  }
}

TimeMs RunCoordinator::NextWake() const {
  const TimeMs say_at = events_.quiet_until();
  return wake_at_ == 0 || say_at == 0 ? std::max(wake_at_, say_at) : std::min(wake_at_, say_at);
}

// What was told as the end of a run is durable, and so is the round that a stopped one names.
void RunCoordinator::EndRun() {
  const Status written = writer_.Flush();
  mutex_.Lock();
  const RunMachine::Phase phase = written.ok() ? machine_.phase() : RunMachine::Phase::kFailed;
  const std::string reason = written.ok() ? machine_.reason() : std::string(Message(written));
  Status result;
  if (phase == RunMachine::Phase::kFailed) {
    result = failure_.ok() ? Aborted("{}", reason) : failure_;
  } else if (phase == RunMachine::Phase::kStopped) {
    result = Cancelled("the run was stopped after round {}; it can be resumed", machine_.committed_round());
  }
  // Uploads that were on their way lead nowhere now.
  intake_.CancelAll("the run has ended");
  const int64_t round = machine_.committed_round();
  mutex_.Unlock();

  if (phase == RunMachine::Phase::kFinished) {
    ReportStore::RemoveAll(options_.file_system != nullptr ? *options_.file_system : FileSystem::Default(),
                           models_->folder());
  }
  if (const std::string refused = clients_.RestOfRefusals(); !refused.empty())
    events_.Tell(events_.Note("warning", refused, round));
  if (phase == RunMachine::Phase::kFailed) {
    // Where the reason is a full disk, this cannot be written either; the run's rows then say that it was running.
    const EventRow event = events_.Note("error", reason, round + 1);
    history_->EndRun(run_id_, "failed", reason, event.at, std::span(&event, 1)).IgnoreError();
  } else if (phase == RunMachine::Phase::kStopped) {
    const EventRow event = events_.Note("info", fmt::format("stopped after round {}", round), round + 1);
    if (const Status status = history_->EndRun(run_id_, "interrupted", "", event.at, std::span(&event, 1));
        !status.ok()) {
      result = Cancelled("{}; the history could not be told: {}", Message(result), Message(status));
    }
  }

  history_.Close();
  events_.End(result);
}

// --- What clients need of the rounds

bool RunCoordinator::Begin() {
  MutexLock lock(mutex_);
  BeginRun();
  TickIfDue();
  return !machine_.over();
}

bool RunCoordinator::Over() {
  MutexLock lock(mutex_);
  return machine_.over();
}

bool RunCoordinator::Knows(const std::string& client_id) {
  MutexLock lock(mutex_);
  return machine_.knows(client_id);
}

std::string RunCoordinator::ViaOf(const std::string& client_id) {
  MutexLock lock(mutex_);
  return machine_.via(client_id);
}

Status RunCoordinator::MayJoin(const std::string& client_id, int64_t others) {
  MutexLock lock(mutex_);
  return machine_.MayJoin(client_id, others);
}

std::pair<int64_t, int64_t> RunCoordinator::NextDraw() {
  MutexLock lock(mutex_);
  return machine_.next_draw();
}

std::string RunCoordinator::Join(std::vector<std::string> client_ids, const std::string& via) {
  MutexLock lock(mutex_);
  if (machine_.over()) return "";
  Feed(ClientsJoined{std::move(client_ids), via});
  return machine_.phase() == RunMachine::Phase::kWaiting ? machine_.Awaited(clock_.Now()) : "";
}

int64_t RunCoordinator::Round() {
  MutexLock lock(mutex_);
  return machine_.round();
}

// Nobody is asked for what is about to be counted.
void RunCoordinator::AwaitRecovered() {
  MutexLock lock(mutex_);
  while (!left_.empty() && !machine_.over()) changed_.Wait(mutex_);
}

}  // namespace rivulet
