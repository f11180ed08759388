#include "engine/profile/run_recorder.h"

namespace rivulet {

// All memory in advance: a recorder that allocated between two calls would measure its own allocations.
RunRecorder::RunRecorder(size_t capacity) : capacity_(capacity) {
  spans_.reserve(capacity);
  open_.reserve(64);
}

// What does not fit is counted and still opened, so that nesting stays right for those around it.
void RunRecorder::Begin(const Program& program, int index, const KernelContext&) {
  int32_t span = -1;
  if (spans_.size() < capacity_) {
    span = static_cast<int32_t>(spans_.size());
    spans_.push_back({&program, index, open_.empty() ? -1 : open_.back().span});
  } else {
    ++dropped_;
  }
  open_.push_back({span, 0, 0});
  open_.back().begin = ProfileNanos();  // last, so that our own work is outside
}

Status RunRecorder::End(const Program&, int, const KernelContext&) {
  Leave(ProfileNanos(), false);
  return {};
}

void RunRecorder::Failed(const Program&, int, const Status&) { Leave(ProfileNanos(), true); }

// A call's own time is its span without what ran inside of it: sums over instructions then count each nanosecond once,
// loops and branches included.
void RunRecorder::Leave(int64_t end, bool failed) {
  if (open_.empty()) return;
  const Open left = open_.back();
  open_.pop_back();
  if (!open_.empty()) open_.back().inside += end - left.begin;
  if (left.span < 0) return;
  InstructionSpan& span = spans_[static_cast<size_t>(left.span)];
  span.begin = left.begin;
  span.end = failed ? 0 : end;
  span.inside = left.inside;
}

void RunRecorder::Clear() {
  spans_.clear();
  open_.clear();
  dropped_ = 0;
}

}  // namespace rivulet
