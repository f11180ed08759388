#include "aggregator/aggregator.h"

#include <algorithm>
#include <random>
#include <thread>

#include "aggregator/blobs.h"
#include "federated/plan/download_bounds.h"
#include "federated/plan/plan.h"
#include "federated/tasks/task.h"
#include "federated/updates/site_partial_bytes.h"

namespace rivulet {
namespace {

// Tasks in one answer, and all that are in hand, which every beat names: each is one message.
constexpr int64_t kMostWanted = 1024, kMostJobs = 8192;
// Who waits and has nothing in hand is said to be there so often at least.
constexpr std::chrono::seconds kSayPresence{1};

StatusOr<AggregatorPlan> AggregatorPlanOf(std::string bytes) {
  RIVULET_ASSIGN_OR_RETURN(const auto plan, Plan::Open(std::move(bytes)));
  return AggregatorPlan{plan->aggregation(TaskKind::kTrain), plan->aggregation(TaskKind::kEvaluate),
                        MaxModelBytes(*plan->layout()), MaxBroadcastBytes(*plan->layout())};
}

AggregatorOptions Completed(AggregatorOptions options,
                            std::function<void(const Status& status, int64_t wait_ms)> on_retry) {
  if (!options.read_plan) options.read_plan = AggregatorPlanOf;
  if (options.file_system == nullptr) options.file_system = &FileSystem::Default();
  options.calls.on_retry = std::move(on_retry);
  return options;
}

}  // namespace

Aggregator::Aggregator(CoordinatorApi& parent, AggregatorOptions options)
    : parent_(parent),
      options_(Completed(std::move(options), [this](const Status& status, int64_t) { NoteLost(status); })),
      session_(uint64_t{std::random_device()()} << 32 | std::random_device()()),
      intake_(options_.folder, options_.staging_bytes),
      warnings_([this](const std::string& sentence) {
        if (options_.on_event) options_.on_event("warning", sentence);
      }) {
  PersistedUpdates::RemoveHalfWritten(*options_.file_system, options_.state);
}

Aggregator::~Aggregator() { intake_.CancelAll("the aggregator has ended"); }

Status Aggregator::Run() {
  std::thread listener([this] { Listen(); });
  std::thread beat([this] { Beat(); });
  TransferLoop();
  listener.join();
  beat.join();
  MutexLock lock(mutex_);
  // One that has failed may be resumed, and then asks for what it had not written.
  if (over_ && !over_->failed) PersistedUpdates::RunIsOver(*options_.file_system, options_.state, run_id_);
  return result_;
}

// Once for as long as the parent cannot be reached, however many calls are repeated.
void Aggregator::NoteLost(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (ended_ || std::exchange(lost_, true)) return;
  }
  Tell("warning", fmt::format("{}; it is tried again until it answers", Message(status)));
}

void Aggregator::Stop() {
  stop_.Stop();
  End(Cancelled("stopped"));
}

std::optional<PollReply::Over> Aggregator::over() const {
  MutexLock lock(mutex_);
  return over_;
}

// The first to say so counts. Whoever waits for the parent waits no longer.
void Aggregator::End(const Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  result_ = status;
  stop_.Stop();
  changed_.NotifyAll();
  if (listener_ != nullptr) listener_->OnNews("");
}

PollRequest Aggregator::Request() const {
  PollRequest request;
  request.caller = {.name = options_.name, .run_id = run_id_, .session = session_};
  request.capabilities.version = options_.version;
  request.serves.kind = Serves::Kind::kNames;
  request.want = std::clamp<int64_t>(kMostJobs - std::ssize(jobs_), 0, kMostWanted);
  return request;
}

// It says nothing of what is in whose hands: it may be answered long after it was asked, when that is another.
void Aggregator::Listen() {
  CoordinatorCalls calls(parent_, stop_, options_.calls);
  bool told = false;
  for (;;) {
    PollRequest request;
    {
      MutexLock lock(mutex_);
      // What is being brought would be asked for in each answer.
      while (bringing_ > 0 && !ended_) changed_.Wait(mutex_);
      if (ended_) return;
      request = Request();
    }
    request.hold_ms = options_.hold_ms;
    request.told = told;
    const StatusOr<PollReply> reply = Ask(calls, request);
    if (!reply.ok()) return End(reply.status());
    if (reply->over) return End(absl::OkStatus());
    told = reply->tasks.empty();
    if (!reply->tasks.empty()) continue;
    bool bringing = false;
    {
      MutexLock lock(mutex_);
      bringing = bringing_ > 0;
    }
    if (reply->hand_over.empty()) {
      parent_.AwaitWork(request.caller, reply->epoch, reply->wait_ms);
    } else if (!bringing) {
      constexpr int64_t kUntilFoldedMs = 5;
      stop_.Sleep(kUntilFoldedMs);
    }
  }
}

Aggregator::Clock::time_point Aggregator::NextBeat() const {
  if (dirty_) return Clock::time_point::min();
  Clock::time_point next = Clock::time_point::max();
  if (!heard_.empty()) next = beaten_ + kSayPresence;
  if (!jobs_.empty()) next = std::min(next, beaten_ + std::chrono::milliseconds(beat_ms_));
  return next;
}

void Aggregator::Beat() {
  CoordinatorCalls calls(parent_, stop_, options_.calls);
  for (;;) {
    PollRequest request;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (ended_) return;
        const Clock::time_point next = NextBeat(), now = Clock::now();
        if (next <= now) break;
        if (next == Clock::time_point::max()) {
          changed_.Wait(mutex_);
        } else {
          changed_.WaitFor(mutex_, next - now);
        }
      }
      beaten_ = Clock::now();
      request = Saying();
    }
    const StatusOr<PollReply> reply = Ask(calls, request);
    if (!reply.ok()) return End(reply.status());
    if (reply->over) return End(absl::OkStatus());
  }
}

// A task is named when its client was heard of, or when it is here by itself. Names that one message has no room for
// come with the next.
PollRequest Aggregator::Saying() {
  dirty_ = false;
  PollRequest request = Request();
  for (auto name = heard_.begin(); name != heard_.end(); name = heard_.erase(name)) {
    if (request.serves.names.size() >= kMostServed) {
      dirty_ = true;
      break;
    }
    request.serves.names.push_back({*name, members_.at(*name).datasets});
  }
  for (auto& [id, job] : jobs_) {
    const bool here = job.stage == Job::Stage::kFetched || job.stage >= Job::Stage::kFolding;
    if (!here && !std::exchange(job.heard, false)) continue;
    request.working_on.push_back({id, job.stage >= Job::Stage::kAnswered, job.task.step});
  }
  return request;
}

StatusOr<PollReply> Aggregator::Ask(CoordinatorCalls& calls, const PollRequest& request) {
  StatusOr<PollReply> reply = calls.Poll(request);
  bool found = false;
  {
    MutexLock lock(mutex_);
    found = reply.ok() && std::exchange(lost_, false);
  }
  if (found) Tell("info", "the parent answers again");
  MutexLock lock(mutex_);
  if (absl::IsNotFound(reply.status()) && !request.caller.run_id.empty()) {
    if (run_id_ == request.caller.run_id) ForgetRun();  // the parent serves another run by now
    return PollReply{};
  }
  if (reply.ok()) Obey(request, *reply);
  return reply;
}

void Aggregator::ForgetRun() {
  run_id_.clear();
  while (!jobs_.empty()) Erase(TaskId(jobs_.begin()->first));
  for (auto& [gather, gathering] : gatherings_) gathering->gone = true;
  gatherings_.clear();
  for (auto& [name, member] : members_) {
    member.outcome.reset();
    heard_.insert(name);
  }
  dirty_ = true;
}

void Aggregator::Obey(const PollRequest& request, const PollReply& reply) {
  for (const ServedName& served : request.serves.names) {
    if (const auto member = members_.find(served.name); member != members_.end()) {
      member->second.confirmed = true;
      member->second.refused = absl::OkStatus();
    }
  }
  for (const RefusedName& turned : reply.refused_names) {
    const auto member = members_.find(turned.name);
    if (member == members_.end()) continue;
    member->second.refused = turned.reason;
    News(turned.name);
  }
  for (const TaskOutcome& outcome : reply.outcomes) {
    const std::optional<TaskName> name = TaskNameOf(outcome.task, run_id_);
    const auto member = name ? members_.find(name->client_id) : members_.end();
    if (member != members_.end()) member->second.outcome = outcome;
    Settle(outcome);
  }
  for (const TaskId& task : reply.cancelled) {
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.stage == Job::Stage::kSending) continue;
    const bool held = job->second.stage == Job::Stage::kHeld;
    const std::string client_id = job->second.task.client_id;
    if (held) DropGathering(job->second.task.gather);
    Erase(task);
    News(client_id);
  }
  for (const Task& task : reply.tasks) Begin(task);
  if (!reply.tasks.empty() || !request.working_on.empty()) beat_ms_ = std::max<int64_t>(reply.wait_ms, 1);
  for (const HandOver& wanted : reply.hand_over) HandOverIfWhole(wanted);
  if (!reply.awaited.sentence.empty()) awaited_ = reply.awaited.sentence;
  if (reply.over && !over_) {
    over_ = reply.over;
    while (!jobs_.empty()) Erase(TaskId(jobs_.begin()->first));
    if (listener_ != nullptr) listener_->OnNews("");
  }
}

void Aggregator::Begin(const Task& task) {
  run_id_ = task.run_id;
  if (const auto found = jobs_.find(task.id); found != jobs_.end()) {
    if (!BeginNextStep(found->second, task)) return;  // given again, to a poll that had not heard of it
  } else {
    Job job;
    job.task = task;
    jobs_.emplace(task.id, std::move(job));
    jobs_of_[task.client_id].insert(task.id);
  }
  errands_.push_back([this, id = task.id](CoordinatorCalls& calls) { return FetchFor(calls, id); });
  changed_.NotifyAll();
}

// Not before all of it is in: the parent asks again. What it lacks is said at the next beat to be held no longer.
void Aggregator::HandOverIfWhole(const HandOver& wanted) {
  const auto found = gatherings_.find(wanted.gather);
  const auto held = [&](const TaskId& task) REQUIRES(mutex_) {
    const auto job = jobs_.find(task);
    return job != jobs_.end() && job->second.stage == Job::Stage::kHeld && job->second.task.gather == wanted.gather;
  };
  if (found == gatherings_.end() || !std::ranges::all_of(wanted.tasks, held)) {
    const bool sending = std::ranges::any_of(wanted.tasks, [&](const TaskId& task) REQUIRES(mutex_) {
      const auto job = jobs_.find(task);
      return job != jobs_.end() && job->second.stage == Job::Stage::kSending;
    });
    if (!sending) dirty_ = true;
    changed_.NotifyAll();
    return LoseWordsThatAreGone(wanted);
  }
  if (found->second->folding > 0) return;
  const std::shared_ptr<Gathering> gathering = found->second;
  gatherings_.erase(found);
  for (const TaskRecord& record : gathering->records) jobs_.at(record.task).stage = Job::Stage::kSending;
  ++bringing_;
  errands_.push_back([this, gather = wanted.gather, gathering](CoordinatorCalls& calls) {
    const Status brought =
        gathering->pot == nullptr ? BringWords(calls, gather, *gathering) : Bring(calls, gather, *gathering);
    MutexLock lock(mutex_);
    --bringing_;
    changed_.NotifyAll();
    return brought;
  });
  changed_.NotifyAll();
}

// Whose update is kept is not asked for it.
void Aggregator::OfferAgain(Job& job) {
  job.stage = job.kept ? Job::Stage::kFolding : Job::Stage::kOffered;
  job.held_below = false;
  dirty_ = true;
  if (job.kept) {
    errands_.push_back([this, id = job.task.id](CoordinatorCalls&) { return CountKept(id); });
  } else {
    News(job.task.client_id);
  }
  changed_.NotifyAll();
}

void Aggregator::DropGathering(uint64_t gather) {
  const auto found = gatherings_.find(gather);
  if (found == gatherings_.end()) return;
  const std::shared_ptr<Gathering> gathering = found->second;
  gathering->gone = true;  // whoever is being added finds it so
  gatherings_.erase(found);
  for (const TaskRecord& record : gathering->records) {
    const auto job = jobs_.find(record.task);
    if (job == jobs_.end()) continue;
    if (gathering->pot == nullptr) {
      LoseWords(record.task);
    } else {
      OfferAgain(job->second);
    }
  }
}

void Aggregator::Erase(const TaskId& task) {
  const auto job = jobs_.find(task);
  if (job == jobs_.end()) return;
  intake_.Cancel(task, "its round is over");
  const auto of_client = jobs_of_.find(job->second.task.client_id);
  of_client->second.erase(task);
  if (of_client->second.empty()) jobs_of_.erase(of_client);
  jobs_.erase(job);
}

void Aggregator::Tell(const char* level, const std::string& sentence) const {
  if (!options_.on_event) return;
  std::string_view(level) == "warning" ? warnings_.Tell(sentence) : options_.on_event(level, sentence);
}

}  // namespace rivulet
