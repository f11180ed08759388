// The end of an attempt, and its successor: a version, another attempt, or the end of the run.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

// Why updates are missing, for a run that fails: one client's reason, and the number of others. All reasons are in the
// history.
std::string Complaints(const std::vector<Lease>& leases) {
  std::string text;
  int more = 0;
  for (const Lease& lease : leases) {
    if (lease.state == State::kFolded || lease.reason.empty()) continue;
    if (text.empty()) {
      text = fmt::format("client '{}' {}: {}", lease.client_id, Name(lease.state), lease.reason);
    } else {
      ++more;
    }
  }
  if (more > 0) text += fmt::format("; and {} more", more);
  return text;
}

std::string TooFewAnswered(const UpdateBuffer& buffer) {
  return fmt::format("too few answered step {}, so that the sum of {} updates cannot be read", buffer.step(),
                     buffer.folded());
}

}  // namespace

// The only place where an attempt ends, called after every event that may resolve a lease.
void RunMachine::Judge(Gathering& gathering, TimeMs now, Actions& actions) {
  if (gathering.kind == TaskKind::kTrain && phase_ != Phase::kTraining) return;  // one version is made at a time
  if (Rests(gathering)) return;
  UpdateBuffer& buffer = gathering.buffer;
  switch (buffer.needless()) {
    case UpdateBuffer::Needless::kOpen:
      DropOpen(gathering, EnoughWithout(gathering.kind));
      break;
    case UpdateBuffer::Needless::kOffered:
      DropOffered(gathering.kind, EnoughWithout(gathering.kind));
      break;
    case UpdateBuffer::Needless::kNone:
      break;
  }
  const UpdateBuffer::Verdict verdict = buffer.Judge();
  if (verdict == UpdateBuffer::Verdict::kGoOn) return;
  if (verdict == UpdateBuffer::Verdict::kAskFor) return AskHolders(gathering, nullptr, actions);
  if (verdict == UpdateBuffer::Verdict::kNextStep) return BeginNextStep(gathering, now, actions);
  const bool enough = verdict == UpdateBuffer::Verdict::kCommit;
  const bool train = gathering.kind == TaskKind::kTrain;
  const bool goes_on = train && enough && continuous() && round() < rules_.rounds;
  if (goes_on) {
    CarryOver();
  } else if (train && enough && continuous()) {
    DropOpen(gathering, "the run had all its versions without it");
  } else if (buffer.at_last_step() && !buffer.past_sum()) {
    DropLapsed(gathering);
  } else {
    DropOpen(gathering, !buffer.failure().empty() ? buffer.failure()
                                                  : fmt::format("too few have reported step {}", buffer.step()));
  }
  actions.push_back(Close{train ? round() : gathering.version, train ? attempt_ : gathering.attempt, gathering.kind});
  armed_ = 0;  // a closed buffer needs no wake
  if (!train) return Evaluate(gathering, enough, actions);
  if (enough) {
    phase_ = Phase::kCommitting;
    if (rules_.fleet != nullptr) virtual_now_ += rules_.fleet->VersionTime(round());
    actions.push_back(Commit{round(), attempt_, Folded(made_ ? made_->buffer : buffer), virtual_now_});
    return;
  }
  phase_ = Phase::kAbandoning;
  std::string reason = fmt::format("{} of {} updates that round {} needs arrived ({})", buffer.folded(), buffer.least(),
                                   round(), Complaints(leases()));
  if (!buffer.failure().empty()) reason = buffer.failure();
  if (buffer.failure().empty() && buffer.past_sum()) {
    reason = TooFewAnswered(buffer);
  }
  reason_ = fmt::format("round {} failed after {} attempt{}; in the last, {}", round(), attempts_tried_,
                        attempts_tried_ == 1 ? "" : "s", reason);
  actions.push_back(Abandon{round(), attempt_, reason, LastAttempt()});
}

// A lease that is too stale for the next version is dropped now, because later versions would be staler still.
void RunMachine::CarryOver() {
  DropLapsed(*training_);
  for (const LeaseSlot slot : training_->buffer.leases()) {
    const Lease& lease = book_.at(slot);
    const int64_t staleness = round() - lease.base_round;
    if (lease.resolved() || staleness <= rules_.policy.max_staleness) continue;
    SetState(slot, State::kDropped,
             fmt::format("its update would be {} versions late, and {} are allowed", staleness,
                         rules_.policy.max_staleness));
  }
  Gathering next{TaskKind::kTrain, round() + 1, 1, UpdateBuffer(RulesAt(TaskKind::kTrain, 0))};
  Gathering made{TaskKind::kTrain, round(), attempt_,
                 UpdateBuffer(RulesAt(TaskKind::kTrain, 0), UpdateBuffer::State::kClosed)};
  for (const LeaseSlot slot : training_->buffer.leases()) {
    (book_.at(slot).resolved() ? made : next).buffer.Add(slot, book_.at(slot));
  }
  made_ = std::move(made);
  training_ = std::move(next);
}

void RunMachine::Evaluate(const Gathering& gathering, bool enough, Actions& actions) {
  const UpdateBuffer& buffer = gathering.buffer;
  Evaluated evaluated{gathering.version, gathering.attempt, Folded(buffer), ""};
  if (!enough && !buffer.failure().empty()) {
    evaluated.reason = buffer.failure();
  } else if (!enough && buffer.past_sum()) {
    evaluated.reason = TooFewAnswered(buffer);
  } else if (!enough && buffer.leases().empty()) {
    evaluated.reason = fmt::format("too few clients were there to measure round {}", gathering.version);
  } else if (!enough) {
    evaluated.reason =
        fmt::format("{} of {} reports that the evaluation of round {} needs arrived ({})", buffer.folded(),
                    buffer.least(), gathering.version, Complaints(leases(gathering.kind)));
  }
  actions.push_back(std::move(evaluated));
}

std::vector<TaskId> RunMachine::Folded(const UpdateBuffer& buffer) const {
  std::vector<TaskId> tasks;
  tasks.reserve(static_cast<size_t>(buffer.folded()));
  for (const LeaseSlot slot : buffer.leases()) {
    if (book_.at(slot).state == State::kFolded) tasks.push_back(book_.at(slot).task);
  }
  return tasks;
}

// Each site keeps its task: it has the state of earlier steps, so no other site could continue.
void RunMachine::BeginNextStep(Gathering& gathering, TimeMs now, Actions& actions) {
  UpdateBuffer& buffer = gathering.buffer;
  const int step = buffer.step() + 1;
  DropOpen(gathering, fmt::format("step {} began without it", step), true, false);
  for (const LeaseSlot slot : buffer.leases()) {
    if (book_.at(slot).state != State::kReported) continue;
    buffer.Leave(book_.at(slot));
    book_.BeginStep(slot, step);
    buffer.Enter(book_.at(slot));
    Extend(slot, now);
    actions.push_back(OfferOf(slot, false));
  }
  buffer.BeginStep(step, now);
}

void RunMachine::CloseBuffer(std::optional<Gathering>& gathering) {
  for (const LeaseSlot slot : gathering->buffer.leases()) book_.Remove(slot);
  gathering.reset();
}

void RunMachine::DropOffered(TaskKind kind, const std::string& reason) {
  while (const auto slot = book_.NextOffered(kind)) SetState(*slot, State::kDropped, reason);
}

// A running fold cannot be undone; its result counts.
void RunMachine::DropOpen(const Gathering& gathering, const std::string& reason, bool held, bool reported) {
  DropLapsed(gathering);
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    const Lease& lease = book_.at(slot);
    if (lease.resolved() || lease.state == State::kFolding || (lease.state == State::kHeld && !held)) continue;
    if (lease.state != State::kReported || reported) SetState(slot, State::kDropped, reason);
  }
}

void RunMachine::DropLapsed(const Gathering& gathering) {
  if (gathering.buffer.lapsed() == 0) return;
  const std::string reason = fmt::format("it was silent for {:g} s", static_cast<double>(rules_.lease_ms) / 1000);
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    if (book_.at(slot).state == State::kLapsed) SetState(slot, State::kDropped, reason);
  }
}

// Sorted by name, so that the actions depend only on the set of held leases.
void RunMachine::AskHolders(const Gathering& gathering, const std::string* site, Actions& actions) const {
  std::map<std::pair<std::string_view, uint64_t>, std::vector<TaskId>> held;
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    const Lease& lease = book_.at(slot);
    if (lease.state == State::kHeld && (site == nullptr || lease.site == *site)) {
      held[{lease.site, GatherOf(lease, gathering)}].push_back(lease.task);
    }
  }
  for (auto& [holder, tasks] : held) {
    actions.push_back(HandOverPartial{std::string(holder.first), holder.second, std::move(tasks)});
  }
}

// The machine waits until the version is made. A next round that was drawn earlier would be wrong if this one
// fails.
void RunMachine::Handle(const CommitDone& event, TimeMs now, Actions& actions) {
  if (phase_ != Phase::kCommitting && phase_ != Phase::kAbandoning) return;
  const bool committed = phase_ == Phase::kCommitting;
  if (!event.ok) return End(Phase::kFailed, event.reason);
  if (committed) {
    sitting_out_.Clear();
  } else if (rules_.policy.replace) {
    // Adds them in the order drawn, not in the order of their ends.
    for (const LeaseSlot slot : training_->buffer.leases()) {
      const Lease& lease = book_.at(slot);
      if (lease.state == State::kRefused || lease.state == State::kFailed) sitting_out_.Add(lease.client_id);
    }
  }
  CloseBuffer(made_ ? made_ : training_);
  if (committed) {
    ++committed_round_;
    attempt_ = attempts_before_ + 1;
    attempts_tried_ = 0;
    if (members_.remembers()) {
      for (const CommitDone::Reported& one : event.reported) {
        const auto before = members_.participations().find(one.client_id);
        const int64_t versions = before == members_.participations().end() ? 0 : before->second.versions;
        members_.Remember(one.client_id, {committed_round_, versions + 1, one.examples, one.loss, one.duration});
      }
    }
    // Ordinals distinguish the leases of one client at one version; a new version restarts them.
    ordinals_.clear();
    members_.BeginDraw(DrawnAs());
    const int64_t every = rules_.evaluation.every;
    const bool last = event.last || committed_round_ >= rules_.rounds;
    // Open leases would be for the next version, so their updates are of no use.
    if (last && training_) CloseBuffer(training_);
    if (every > 0 && (committed_round_ % every == 0 || last)) {
      // If evaluations end by a deadline, one that cannot begin before the next is due is skipped.
      if (rules_.deadline_ms > 0) due_.clear();
      due_.push_back(committed_round_);
    }
    if (last) {
      if (!evaluation_ && due_.empty()) return End(Phase::kFinished, "");
      phase_ = Phase::kEvaluating;
      if (stopping_) return End(Phase::kStopped, "by its operator");
      return OpenNext(now, actions);
    }
  } else {
    if (LastAttempt()) return End(Phase::kFailed, reason_);
    ++attempt_;
    members_.BeginDraw(DrawnAs());
    reason_.clear();
    not_before_ = now + rules_.retry.PauseAfter(attempts_tried_);
  }
  if (stopping_) return End(Phase::kStopped, "by its operator");
  phase_ = Phase::kWaiting;
  OpenNext(now, actions);
}

void RunMachine::Handle(const EvaluationDone& event, TimeMs now, Actions& actions) {
  if (over() || !evaluation_ || Open(TaskKind::kEvaluate) != nullptr) return;
  if (!event.ok) return End(Phase::kFailed, event.reason);
  CloseBuffer(evaluation_);
  members_.EndBeside();
  if (phase_ == Phase::kEvaluating && due_.empty()) return End(Phase::kFinished, "");
  if (phase_ == Phase::kEvaluating && stopping_) return End(Phase::kStopped, "by its operator");
  OpenEvaluation(now, actions);
}

// Open gatherings are abandoned: further versions could not be written either.
void RunMachine::Handle(const VersionFailed& event, TimeMs, Actions&) {
  if (!over()) End(Phase::kFailed, event.reason);
}

}  // namespace rivulet
