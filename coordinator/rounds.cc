#include "coordinator/rounds.h"

#include <algorithm>
#include <chrono>

#include "coordinator/intake/site_partial.h"
#include "engine/base/check.h"
#include "engine/base/vlog.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

// The limit for cohorts of both kinds. An evaluation's partial sum is numbers alone, for any number of clients.
int64_t MostPartialBytes(const RunParts& parts, const EvaluationConfig& evaluation) {
  AggregationSpec measures = parts.evaluation;
  measures.updates_per_version = std::max(evaluation.federated_clients, parts.aggregation.updates_per_version);
  return std::max(MostSitePartialBytes(parts.aggregation), MostSitePartialBytes(measures));
}

}  // namespace

Rounds::Rounds(std::string run_id, const CoordinatorOptions& options, const RunParts& parts, const NumberRule* numbers,
               RunMachine machine, bool resumed, int64_t first_version, Around around)
    : run_id_(std::move(run_id)),
      options_(options),
      parts_(parts),
      number_rule_(numbers),
      resumed_(resumed),
      first_version_(first_version),
      max_update_bytes_(MostUpdateBytes(parts_.aggregation)),
      max_partial_bytes_(MostPartialBytes(parts_, options_.scenario.evaluation)),
      clock_(around.clock),
      events_(around.events),
      versions_(around.versions),
      intake_(around.intake),
      states_(around.states),
      reports_(around.reports),
      clients_(around.clients),
      machine_(std::move(machine)) {}

void Rounds::CannotWrite(const Status& status) {
  MutexLock lock(mutex_);
  failure_ = status;
  Feed(VersionFailed{std::string(Message(status))});
}

// The only entry to the machine, always under mutex_. An action's cost decides where it is executed. Work in memory is
// done here at once, so the records and the machine never differ. Commits and abandoned attempts go to the run's own
// thread, because a large model takes a second. Callbacks are queued until no lock is held.
std::vector<Action> Rounds::Feed(const Event& event, std::vector<Action> room) {
  const bool was_over = machine_.over();
  const int64_t offered = machine_.offered();
  std::vector<Action> actions = machine_.On(event, clock_.Now(), std::move(room));
  // A waiting site is woken for tasks that it may take, whether new or offered again, and for a requested partial sum;
  // the end of the run wakes it below.
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
  std::shared_ptr<Attempt> closed;  // by the Close that precedes its outcome
  // Copied: the machine clears its own once the job is done, and polls change them until then.
  std::vector<Lease> leases;
  std::map<TaskKind, NextStep> next_steps;
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
      } else if (offer->lease.step > 0) {
        NextStep& next = next_steps[offer->lease.kind];
        next.step = offer->lease.step;
        next.clients.insert(offer->lease.client_id);
        if (listener_ != nullptr) listener_->OnNews(offer->lease.site);
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
  for (const auto& [kind, next] : next_steps) BeginSecureStep(kind, next, actions);
  return actions;
}

// An attempt's records are in a separate object, shared with the uploads and the commit that use it. When the next
// attempt begins, they remain as long as they are needed, and the next attempt need not wait.
void Rounds::BeginAttempt(TaskKind kind, int64_t round, int64_t number) {
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
  auto aggregation = kind == TaskKind::kTrain ? Aggregation::Create(parts_.aggregation, parts_.sum_files)
                                              : Aggregation::Create(parts_.evaluation);
  RIVULET_CHECK(aggregation.ok(), "{}", Message(aggregation.status()));  // was created once before
  attempt->accumulator = std::make_unique<RoundAccumulator>(*std::move(aggregation));
  if (parts_.steps > 1) {
    const bool measures = kind == TaskKind::kEvaluate;
    const int64_t version = measures ? round : round - 1;
    const Versions::Version base = versions_.Of(version);
    const secure::Session session = {.run = run_id_,
                                     .plan = parts_.plan_digest,
                                     .model = base->sent_digest,
                                     .version = static_cast<uint64_t>(version),
                                     .attempt = static_cast<uint32_t>(number),
                                     .measures = measures};
    auto secure = SecureRound::Create(measures ? parts_.evaluation : parts_.aggregation, session, options_.identity(),
                                      clock_.UnixMs() / 1000);
    RIVULET_CHECK(secure.ok(), "{}", Message(secure.status()));  // was created once before
    attempt->secure = *std::move(secure);
  }
}

std::shared_ptr<Attempt> Rounds::AttemptOf(const TaskId& task) {
  const Lease* const lease = machine_.FindLease(task);
  return lease == nullptr ? nullptr : AttemptOf(lease->kind);
}

TaskEntry* Rounds::EntryOf(const TaskId& task) {
  const std::shared_ptr<Attempt> attempt = AttemptOf(task);
  if (attempt == nullptr || !attempt->open) return nullptr;
  const auto found = attempt->tasks.find(task);
  return found == attempt->tasks.end() ? nullptr : &found->second;
}

// A failed process may have made versions that were lost, and offered tasks that start from them. This process makes
// these versions again from other updates, with the same task names. An update trained from a lost version must not
// enter the successor of its replacement. So for tasks of a version that this process may make, only those sites count
// that got them from it; the tasks are given to the next poll.
bool Rounds::MayHave(const TaskId& task) {
  const TaskEntry* const entry = resumed_ ? EntryOf(task) : nullptr;
  return entry == nullptr || entry->taken || entry->base_version < first_version_;
}

void Rounds::BeginTask(const Offer& offer) {
  BeginAttempt(offer.lease.kind, offer.round, offer.attempt);
  Attempt& attempt = *AttemptOf(offer.lease.kind);
  TaskEntry& entry = attempt.tasks[offer.lease.task];
  entry.offered = clock_.Now();
  entry.base_version = offer.lease.base_round;
  entry.gather = offer.gather;
  attempt.gathers[offer.gather] = offer.lease.base_round;
  if (resumed_) {
    if (reports_.store().TakeLeft(offer.lease.task)) {
      left_.push_back({offer.lease.task, offer.lease.client_id, offer.round, std::nullopt});
    }
    if (auto partial = reports_.store().TakeLeftPartial(offer.lease.task)) {
      left_.push_back({offer.lease.task, offer.lease.client_id, offer.round, std::move(partial)});
    }
    changed_.NotifyAll();
  }
  if (options_.tracer != nullptr) {
    options_.tracer->Arrow(options_.tracer->Row("coordinator", "rounds"), Tracer::Flow::kStart, Tracer::kTask,
                           offer.lease.task);
  }
}

// An upload under way would be written in full only to be refused at its end. So it is cut off now, and its client may
// take part in the next round. If tasks outlive versions, open tasks continue towards the next version, and so do their
// uploads.
std::shared_ptr<Attempt> Rounds::CloseAttempt(const Close& close, std::span<const Lease> leases) {
  BeginAttempt(close.kind, close.round, close.attempt);  // an attempt for which no client could be drawn has no task
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

void Rounds::BeginRun() {
  if (begun_) return;
  begun_ = true;
  changed_.NotifyAll();
  if (!machine_.over()) Feed(Tick{});
  events_.Begin();
}

// Each caller moves the clock on too: a client that polls just after a deadline gets an answer from after it, even
// before the run's thread wakes.
void Rounds::TickIfDue() {
  if (wake_at_ != 0 && clock_.Now() >= wake_at_) {
    wake_at_ = 0;
    Feed(Tick{});
  }
}

// An update in its site's partial sum counts as much as one that is aggregated here: it only waits for the others.
void Rounds::TellProgress() {
  // While a version is being made, the machine counts its updates, not those of the open attempt.
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

void Rounds::Wake() {
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

std::optional<Rounds::Work> Rounds::Next() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (!jobs_.empty()) {
          AttemptJob job = std::move(jobs_.front());
          jobs_.pop_front();
          return job;
        }
        if (begun_ && machine_.over()) return std::nullopt;
        if (!left_.empty()) return left_.front();
        if (wake_at_ != 0 && clock_.Now() >= wake_at_) {
          TickIfDue();
        } else if (events_.HasWork()) {
          break;
        } else if (events_.quiet_until() != 0 && clock_.Now() >= events_.quiet_until()) {
          LogWaiting();
        } else if (const TimeMs next = NextWake(); next != 0) {
          changed_.WaitFor(mutex_, std::chrono::milliseconds(next - clock_.Now()));
        } else {
          changed_.Wait(mutex_);
        }
      }
    }
    events_.Drain();
  }
}

void Rounds::Counted() {
  MutexLock lock(mutex_);
  left_.pop_front();
  changed_.NotifyAll();
}

void Rounds::LogWaiting() {
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

TimeMs Rounds::NextWake() const {
  const TimeMs say_at = events_.quiet_until();
  return wake_at_ == 0 || say_at == 0 ? std::max(wake_at_, say_at) : std::min(wake_at_, say_at);
}

// --- What follows a closed attempt

bool Rounds::remembers() const {
  MutexLock lock(mutex_);
  return machine_.remembers();
}

// A version stays until it is measured, and until the tasks that start from it have ended. A version that the machine
// needs no longer is dropped once the machine knows of the new one.
void Rounds::AttemptIsOver(const std::optional<ServedVersion>& version) {
  MutexLock lock(mutex_);
  ++unwritten_;
  if (!version) return;
  versions_.SetCurrent(*version,
                       parts_.policy.base == TaskPolicy::Base::kLatest || machine_.Needs(version->row.round - 1));
}

// Whether a run resumed by its rows alone draws the same clients as one with a snapshot, just after the next attempt
// has begun. It does in a simulation if all members are present, and cohorts are drawn whole and have no memory. A
// snapshot of a thousand leases has 170 kB, and takes as long as their draw.
bool Rounds::RowsSufficeToResume() const {
  const Scenario& scenario = options_.scenario;
  return !options_.enforce_deadline && options_.fleet == nullptr && scenario.selection.trace.empty() &&
         parts_.policy.base == TaskPolicy::Base::kCommitted &&
         scenario.server.clients_asked() <= parts_.aggregation.updates_per_version && !machine_.remembers() &&
         !machine_.oldest_to_measure() && !sent_away_;
}

Rounds::GoneOn Rounds::GoOn(const Event& done, const Status& status, bool alone, std::vector<Action>* room) {
  MutexLock lock(mutex_);
  if (!status.ok()) failure_ = status;
  *room = Feed(done, std::move(*room));
  versions_.Keep([this](int64_t version) REQUIRES(mutex_) { return machine_.Needs(version); });
  GoneOn gone_on;
  const bool goes_on = !machine_.over() || machine_.phase() == RunMachine::Phase::kStopped;
  if (std::holds_alternative<CommitDone>(done) && goes_on && !(alone && RowsSufficeToResume())) {
    gone_on = {machine_.Save(clock_.Now()), machine_.NeededVersions()};
  }
  return gone_on;
}

// The totals of attempts repeat the sums of their rows.
void Rounds::Written(std::span<const PendingAttempt> attempts) {
  MutexLock lock(mutex_);
  for (const PendingAttempt& pending : attempts) {
    if (pending.attempt.kind != TaskKind::kTrain) continue;
    const RoundRow& row = *pending.row;
    ++(row.status == "committed" ? totals_.committed : totals_.abandoned);
    totals_.folded += row.folded;
    totals_.refused += row.refused;
    totals_.dropped += row.dropped;
    totals_.failed += row.failed;
    totals_.bytes_up += row.bytes_up;
    totals_.bytes_down += row.bytes_down;
  }
  unwritten_ -= std::ssize(attempts);
  changed_.NotifyAll();
}

std::optional<int64_t> Rounds::OldestToMeasure() const {
  MutexLock lock(mutex_);
  return machine_.oldest_to_measure();
}

Rounds::Ending Rounds::ending() const {
  MutexLock lock(mutex_);
  return {machine_.phase(), machine_.reason(), machine_.committed_round(), failure_};
}

// --- What accepted reports need

std::optional<Digest> Rounds::BaseOf(const TaskId& task) {
  MutexLock lock(mutex_);
  const Lease* const lease = machine_.FindLease(task);
  if (lease == nullptr || lease->resolved() || lease->kind != TaskKind::kTrain) return std::nullopt;
  return versions_.Of(lease->base_round)->sent_digest;
}

StatusOr<int64_t> Rounds::BaseOfRecoveredReport(const TaskId& task, const Digest& base) {
  MutexLock lock(mutex_);
  const Lease* const lease = machine_.FindLease(task);
  if (lease != nullptr && (lease->state == Lease::State::kFolding || lease->state == Lease::State::kFolded)) {
    return AlreadyExists("it has arrived again meanwhile");
  }
  if (lease == nullptr || lease->resolved() || versions_.Of(lease->base_round)->sent_digest != base) {
    return FailedPrecondition("its task is another by now");
  }
  return lease->base_round;
}

bool Rounds::IsMissing(const TaskId& task) {
  MutexLock lock(mutex_);
  const Lease* const lease = machine_.over() ? nullptr : machine_.FindLease(task);
  return lease != nullptr && !lease->resolved() && lease->state != Lease::State::kFolding;
}

// Belongs to the rows of the newest closed attempt, like the writer's snapshots. If a later snapshot overtakes it, a
// restart finds the later one, or, if that does not fit the rows of the same round, draws by the rows.
StatusOr<std::optional<Rounds::Snapshot>> Rounds::Save() {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return Unavailable("the run has ended");
  if (unwritten_ > 0) return std::nullopt;
  Snapshot snapshot{machine_.committed_round() + (machine_.attempt() > 1 ? 1 : 0), {}, machine_.Save(clock_.Now())};
  for (const Lease& lease : machine_.leases()) snapshot.tasks.insert(lease.task);
  return std::optional(std::move(snapshot));
}

void Rounds::AwaitWritten() {
  MutexLock lock(mutex_);
  if (unwritten_ > 0) changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
}

// --- What clients need of the rounds

bool Rounds::Begin() {
  MutexLock lock(mutex_);
  BeginRun();
  TickIfDue();
  return !machine_.over();
}

bool Rounds::Knows(const std::string& client_id) {
  MutexLock lock(mutex_);
  return machine_.knows(client_id);
}

std::string Rounds::ViaOf(const std::string& client_id) {
  MutexLock lock(mutex_);
  return machine_.via(client_id);
}

Status Rounds::MayJoin(const std::string& client_id, int64_t others) {
  MutexLock lock(mutex_);
  return machine_.MayJoin(client_id, others);
}

std::pair<int64_t, int64_t> Rounds::NextDraw() {
  MutexLock lock(mutex_);
  return machine_.next_draw();
}

std::string Rounds::Join(std::vector<std::string> client_ids, const std::string& via) {
  MutexLock lock(mutex_);
  if (machine_.over()) return "";
  Feed(ClientsJoined{std::move(client_ids), via});
  return machine_.phase() == RunMachine::Phase::kWaiting ? machine_.Awaited(clock_.Now()) : "";
}

int64_t Rounds::Round() {
  MutexLock lock(mutex_);
  return machine_.round();
}

// While recovered updates are being aggregated, their tasks are given to no client.
void Rounds::AwaitRecovered() {
  MutexLock lock(mutex_);
  while (!left_.empty() && !machine_.over()) changed_.Wait(mutex_);
}

}  // namespace rivulet
