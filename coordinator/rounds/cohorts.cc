// Draws of cohorts: the begin of attempts and evaluations, and the replacement of lost clients.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

constexpr int64_t kMaxOrdinals = 65536;  // an ordinal is 16 bits of the random counter

}  // namespace

void RunMachine::OpenNext(TimeMs now, Actions& actions) {
  if (std::exchange(resumed_, false) && training_) {
    for (const LeaseSlot slot : training_->buffer.leases()) {
      if (book_.at(slot).state == State::kOffered) actions.push_back(OfferOf(slot, false));
    }
  }
  OpenEvaluation(now, actions);
  if (phase_ == Phase::kWaiting && training_) GoOn(now, actions);
  if (phase_ == Phase::kWaiting && !paused_) OpenTraining(now, actions);
}

// Updates that arrived while the version was made belong to the next one already. Without open leases, it begins as the
// first version does.
void RunMachine::GoOn(TimeMs now, Actions& actions) {
  if (training_->buffer.leases().empty()) return training_.reset();
  ++attempts_tried_;
  phase_ = Phase::kTraining;
  armed_ = 0;
  if (ordered()) {
    LetArrive(now, actions);
  } else if (!paused_) {
    AddLeases(*training_, Draw(TaskKind::kTrain, training_->buffer.Missing(), now), now, actions);
  }
  Judge(*training_, now, actions);
}

// After a restart the interrupted attempt is drawn again from the same names. An attempt is not begun if the present
// clients are too few for a version: the run waits for absent ones.
void RunMachine::OpenTraining(TimeMs now, Actions& actions) {
  if (now < not_before_) {
    actions.push_back(WakeAt{not_before_});
    armed_ = not_before_;
    return;
  }
  if (members_.eligible() < names_wanted()) return;
  const int64_t present = presence_.CountPresent(members_.eligible(), now);
  if (present < least()) return;
  sitting_out_.ForgiveUntil(present, least());
  const bool bounded = rules_.deadline_ms > 0 && !continuous();
  Gathering training{TaskKind::kTrain, round(), attempt_,
                     UpdateBuffer(RulesAt(TaskKind::kTrain, bounded ? now + rules_.deadline_ms : 0))};
  const int64_t enough = continuous() ? std::min(least(), rules_.policy.in_flight) : least();
  std::vector<std::string> cohort = Draw(TaskKind::kTrain, training.buffer.Missing(), now);
  const bool nobody = rules_.may_be_empty && cohort.empty() && SamplesNobody();
  for (int waits = 0; !nobody && std::ssize(cohort) < enough && WaitForDevices(waits); ++waits) {
    members_.BeginDraw(DrawnAs());
    cohort = Draw(TaskKind::kTrain, training.buffer.Missing(), now);
  }
  if (samples() && training.buffer.Missing() <= std::ssize(cohort)) {
    return End(Phase::kFailed,
               fmt::format("round {} draws {} clients or more at selection.rate, too many for {} planned; set "
                           "server.clients_per_round to the rate times the number of members",
                           round(), cohort.size(), rules_.policy.updates_per_version));
  }
  const bool empty = cohort.empty() && (nobody || WaitedForAbsent(now, actions));
  if (std::ssize(cohort) < enough && !empty) {
    if (samples() && rules_.presence_ms == 0 && !members_.open()) {
      return End(Phase::kFailed,
                 fmt::format("round {} draws {} clients at selection.rate and needs {}; raise the rate, or lower "
                             "server.min_reports",
                             round(), cohort.size(), enough));
    }
    if (nobody_else_comes()) {
      return End(Phase::kFailed,
                 fmt::format("round {} needs {} clients and can draw {}, and no others may be drawn; check {}", round(),
                             enough, cohort.size(),
                             rules_.fleet == nullptr ? "selection.trace" : "[devices] and selection.trace"));
    }
    members_.BeginDraw(DrawnAs());  // some of the counted clients may not be drawn yet
    return;
  }
  ++attempts_tried_;
  phase_ = Phase::kTraining;
  training_ = std::move(training);
  training_->buffer.BeginStep(0, now);
  armed_ = absent_until_ = 0;
  if (empty) return Judge(*training_, now, actions);
  const bool ends = rules_.fleet_deadline > 0 && !continuous();
  fleet_deadline_ = ends ? virtual_now_ + rules_.fleet_deadline : 0;
  AddLeases(*training_, std::move(cohort), now, actions);
  if (!ordered()) return;
  LetArrive(now, actions);
  Judge(*training_, now, actions);  // at the deadline all of them may be gone
}

bool RunMachine::SamplesNobody() {
  members_.BeginDraw(DrawnAs());
  const bool nobody = members_.Draw(1, [](const std::string&) { return false; }).empty();
  members_.BeginDraw(DrawnAs());
  return nobody;
}

// Versions without updates take no time. Without a wait for absent members, an outage of a few minutes would spend a
// private run's whole budget on noise.
bool RunMachine::WaitedForAbsent(TimeMs now, Actions& actions) {
  if (!rules_.may_be_empty) return false;
  if (rules_.presence_ms == 0) return nobody_else_comes();
  if (rules_.deadline_ms == 0) return false;
  if (absent_until_ == 0) absent_until_ = now + rules_.deadline_ms;
  if (now >= absent_until_) return true;
  actions.push_back(WakeAt{absent_until_});
  armed_ = absent_until_;
  return false;
}

// It begins with the present clients: absent ones may never return, and the run's end would wait. Whenever it begins,
// the draw is the version's own, among the members that training could draw from at this moment.
void RunMachine::OpenEvaluation(TimeMs now, Actions& actions) {
  if (evaluation_ || due_.empty() || over() || paused_) return;
  evaluation_ = {TaskKind::kEvaluate, due_.front(), attempts_before_ + 1,
                 UpdateBuffer(RulesAt(TaskKind::kEvaluate, rules_.deadline_ms > 0 ? now + rules_.deadline_ms : 0))};
  due_.pop_front();
  members_.BeginBeside(TaskKind::kEvaluate, {evaluation_->version, 1});
  evaluation_->buffer.BeginStep(0, now);
  armed_ = 0;
  std::vector<std::string> cohort = Draw(TaskKind::kEvaluate, evaluation_->buffer.Missing(), now);
  if (static_cast<int64_t>(cohort.size()) >= std::max<int64_t>(rules_.evaluation.min_reports, 1)) {
    AddLeases(*evaluation_, std::move(cohort), now, actions);
  }
  Judge(*evaluation_, now, actions);
}

// An evaluation also asks clients whose update was refused, because it is another task. Training skips clients that
// still train; on a virtual clock, those that have not arrived yet.
std::vector<std::string> RunMachine::Draw(TaskKind kind, int64_t count, TimeMs now) {
  const int64_t round = kind == TaskKind::kTrain ? this->round() : evaluation_->version;
  const auto absent = [&](const std::string& client_id) {
    return !presence_.IsPresent(client_id, now) || (rules_.available && !rules_.available(client_id, round));
  };
  // An evaluation takes no virtual time, so the virtual clock does not affect its draw.
  if (kind == TaskKind::kEvaluate) return members_.DrawBeside(count, absent);
  return members_.Draw(count, [&](const std::string& client_id) {
    const Lease* const lease = continuous() ? LeaseOf(client_id) : nullptr;
    return sitting_out_.names().contains(client_id) || absent(client_id) ||
           (rules_.fleet != nullptr && !rules_.fleet->IsThere(client_id, virtual_now_)) ||
           (lease != nullptr && !lease->resolved() && !(ordered() && lease->due));
  });
}

void RunMachine::AddLeases(Gathering& to, std::vector<std::string> client_ids, TimeMs now, Actions& actions) {
  actions.reserve(actions.size() + client_ids.size());
  for (std::string& client_id : client_ids) {
    Lease lease;
    lease.via = members_.via(client_id);
    lease.kind = to.kind;
    lease.base_round = to.kind == TaskKind::kTrain ? committed_round_ : to.version;
    // The ordinal is in the task's name and in its random stream. An attempt that is run again under the same number
    // gives the same tasks, so a client that still has an update can submit it after a restart. No client measures a
    // version twice.
    const int64_t before = to.kind == TaskKind::kTrain ? ordinals_[client_id]++ : 0;
    lease.ordinal = static_cast<uint16_t>((first_ordinal_ + before) % kMaxOrdinals);
    lease.task = TaskIdOf(rules_.run_id, {to.kind, to.version, to.attempt, client_id, lease.ordinal});
    lease.client_id = std::move(client_id);
    if (to.kind == TaskKind::kTrain && ordered()) SetArrival(lease);
    lease.expires = rules_.lease_ms > 0 ? now + rules_.lease_ms : 0;
    actions.push_back(Offer{lease, to.version, to.attempt, false, GatherOf(lease, to)});
    Add(std::move(lease));
  }
}

// Replaces nothing while the buffer closes: held updates suffice then, or no candidates are left. Nor after a barrier:
// a new client lacks the results of earlier steps that the others need.
void RunMachine::Replace(Gathering& in, TimeMs now, Actions& actions) {
  const UpdateBuffer& buffer = in.buffer;
  if (paused_ && continuous() && in.kind == TaskKind::kTrain) return;
  if (ordered() && in.kind == TaskKind::kTrain) {
    if (phase_ == Phase::kTraining && buffer.state() != UpdateBuffer::State::kClosed) LetArrive(now, actions);
    return;
  }
  if (!rules_.policy.replace || buffer.state() != UpdateBuffer::State::kOpen || buffer.step() > 0) return;
  if (in.kind == TaskKind::kTrain && phase_ != Phase::kTraining)
    return;  // the next client starts from the version that is being made
  if (buffer.next_deadline() == 0 || now < buffer.next_deadline()) {
    AddLeases(in, Draw(in.kind, buffer.Missing(), now), now, actions);
  }
}

BufferRules RunMachine::RulesAt(TaskKind kind, TimeMs deadline) const {
  const EvaluationRules& evaluation = rules_.evaluation;
  if (kind == TaskKind::kEvaluate) {
    return {evaluation.clients,
            evaluation.clients,
            evaluation.min_reports,
            deadline,
            rules_.barriers,
            rules_.sum_step,
            false};
  }
  return {rules_.policy.in_flight,
          rules_.policy.updates_per_version,
          rules_.min_reports,
          deadline,
          rules_.barriers,
          rules_.sum_step,
          continuous(),
          rules_.may_be_empty};
}

}  // namespace rivulet
