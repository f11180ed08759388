#include "coordinator/rounds/update_buffer.h"

#include <algorithm>

namespace rivulet {

int64_t DefaultMinReports(int64_t cohort) { return std::max<int64_t>(cohort * 4 / 5, 1); }

void UpdateBuffer::Add(LeaseSlot slot, const Lease& lease) {
  leases_.push_back(slot);
  Count(lease, 1);
}

void UpdateBuffer::Count(const Lease& lease, int64_t change) {
  counts_[static_cast<size_t>(lease.state)] += change;
  if (lease.promised()) promised_ += change;
}

int64_t UpdateBuffer::least() const {
  if (rules_.least > 0) return rules_.least;
  if (rules_.continuous) return rules_.wanted;
  return std::min({rules_.wanted, rules_.in_flight, static_cast<int64_t>(leases_.size())});
}

int64_t UpdateBuffer::Missing() const {
  const int64_t lost = CountInState(Lease::State::kRefused) + CountInState(Lease::State::kDropped) +
                       CountInState(Lease::State::kFailed) + lapsed();
  const int64_t done = rules_.continuous ? folded() : 0;
  return rules_.in_flight - (static_cast<int64_t>(leases_.size()) - lost - done);
}

int64_t UpdateBuffer::Room() const {
  // After its fold at the sum's step, a lease waits for the barrier.
  const bool waits = rules_.sum_step >= 0 && at_sum_step();
  const int64_t reported = waits ? CountInState(Lease::State::kReported) : 0;
  return rules_.wanted - folded() - CountInState(Lease::State::kFolding) - held() - promised_ - reported;
}

UpdateBuffer::Needless UpdateBuffer::needless() const {
  if (rules_.continuous) return Needless::kNone;
  if (past_sum()) return settled_ && failure_.empty() ? Needless::kOpen : Needless::kNone;
  if (folded() >= rules_.wanted) return Needless::kOpen;
  return folded() + held() >= rules_.wanted ? Needless::kOffered : Needless::kNone;
}

int64_t UpdateBuffer::CountOut() const {
  return CountInState(Lease::State::kOffered) + CountInState(Lease::State::kTaken) +
         CountInState(Lease::State::kStaging);
}

void UpdateBuffer::Settle(std::string failure) {
  settled_ = true;
  failure_ = std::move(failure);
}

// The remaining clients answer this step; the protocol settles whether that is enough.
UpdateBuffer::Verdict UpdateBuffer::JudgePastSum() {
  const int64_t out = CountOut();
  if (settled_) {
    state_ = State::kClosed;
    return Verdict::kCommit;
  }
  if (!at_last_step() && out == 0 && CountInState(Lease::State::kReported) > 0) return Verdict::kNextStep;
  if (out + lapsed() > 0) return Verdict::kGoOn;
  state_ = State::kClosed;
  return Verdict::kAbandon;
}

UpdateBuffer::Verdict UpdateBuffer::Judge() {
  if (!failure_.empty()) {
    if (CountInState(Lease::State::kFolding) > 0) return Verdict::kGoOn;  // the sum is in use until that ends
    state_ = State::kClosed;
    return Verdict::kAbandon;
  }
  if (past_sum()) return JudgePastSum();
  const int64_t out = CountOut();
  const bool complete = folded() + held() >= rules_.wanted;
  if (state_ == State::kOpen && held() > 0 && (out == 0 || complete)) {
    state_ = State::kClosing;
    return Verdict::kAskFor;
  }
  const int64_t wanted = rules_.may_be_empty && leases_.empty() ? 0 : std::max<int64_t>(least(), 1);
  if (!at_last_step()) {
    const int64_t reported = CountInState(Lease::State::kReported);
    const int64_t threshold = rules_.barriers[static_cast<size_t>(step_)].threshold;
    const int64_t coming = CountInState(Lease::State::kFolding) + held();
    if (reported >= wanted && coming == 0 && (out == 0 || (threshold > 0 && reported >= threshold))) {
      return Verdict::kNextStep;
    }
    if (out + coming + lapsed() > 0) return Verdict::kGoOn;
    state_ = State::kClosed;
    return Verdict::kAbandon;
  }
  const bool enough = folded() >= wanted;
  if (rules_.continuous && folded() >= rules_.wanted) {
    state_ = State::kClosed;
    return Verdict::kCommit;
  }
  const bool awaited = out + held() + CountInState(Lease::State::kFolding) > 0;
  // Held updates have arrived and are too few: silent clients may still come back.
  if (!awaited && !enough && lapsed() > 0 && state_ == State::kClosing && !asked_last_) state_ = State::kOpen;
  if (awaited || (!enough && lapsed() > 0)) return Verdict::kGoOn;
  state_ = State::kClosed;
  return enough ? Verdict::kCommit : Verdict::kAbandon;
}

TimeMs UpdateBuffer::next_deadline() const {
  if (step_deadline_ == 0 || rules_.deadline == 0) return std::max(step_deadline_, rules_.deadline);
  return std::min(step_deadline_, rules_.deadline);
}

void UpdateBuffer::BeginStep(int step, TimeMs now) {
  if (state_ == State::kClosing) state_ = State::kOpen;  // all partial sums of sites have arrived
  asked_last_ = false;
  const size_t barrier = static_cast<size_t>(step);
  const int64_t lasts = barrier < rules_.barriers.size() ? rules_.barriers[barrier].deadline_ms : 0;
  RestoreStep(step, lasts > 0 ? now + lasts : 0);
}

void UpdateBuffer::RestoreStep(int step, TimeMs deadline) {
  step_ = step;
  step_deadline_ = deadline;
}

void UpdateBuffer::AskLast(TimeMs deadline) {
  (at_last_step() ? rules_.deadline : step_deadline_) = deadline;
  state_ = State::kClosing;
  asked_last_ = true;
}

}  // namespace rivulet
