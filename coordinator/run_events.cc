#include "coordinator/run_events.h"

#include <iterator>
#include <utility>

namespace rivulet {
namespace {

constexpr TimeMs kQuiet = 60'000;  // after so long without news, the run reports the reason of its wait

}  // namespace

RunEvents::RunEvents(std::string run_id, const CoordinatorObserver& observer, RunHistory& history,
                     const RunClock& clock, std::function<void()> on_left)
    : run_id_(std::move(run_id)), observer_(observer), history_(history), clock_(clock), on_left_(std::move(on_left)) {}

EventRow RunEvents::Note(std::string level, std::string message, int64_t round) const {
  return {run_id_, round, Iso8601(clock_.UnixMs()), std::move(level), "run", std::move(message)};
}

EventRow RunEvents::NoteOf(std::string client_id, std::string level, std::string message, int64_t round,
                           TaskId task) const {
  EventRow event = Note(std::move(level), std::move(message), round);
  event.client_id = std::move(client_id);
  event.task_id = std::move(task);
  return event;
}

void RunEvents::Say(EventRow event) {
  if (!observer_.on_event) return;
  quiet_until_ = clock_.Now() + kQuiet;
  Later([this, event = std::move(event)] { observer_.on_event(event); });
}

void RunEvents::Tell(EventRow event) {
  history_->AddEvents(std::span(&event, 1)).IgnoreError();
  Say(std::move(event));
}

void RunEvents::Begin() {
  if (observer_.on_event) quiet_until_ = clock_.Now();
}

void RunEvents::Heard() {
  if (quiet_until_ != 0) quiet_until_ = clock_.Now() + kQuiet;
}

void RunEvents::Later(Callback callback) {
  MutexLock lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

bool RunEvents::HasWork() const {
  MutexLock lock(mutex_);
  return !draining_ && !held_from_ && !callbacks_.empty();
}

void RunEvents::Drain() {
  std::deque<Callback> batch;
  {
    MutexLock lock(mutex_);
    if (draining_ || held_from_ || callbacks_.empty()) return;
    draining_ = true;
    batch.swap(callbacks_);
  }
  for (const Callback& callback : batch) callback();
  bool left = false;
  {
    MutexLock lock(mutex_);
    draining_ = false;
    left = !callbacks_.empty();
    // Every poll passes here, so threads that would find nothing to do are not woken.
    if (left || ended_) changed_.NotifyAll();
  }
  if (left) on_left_();
}

void RunEvents::Hold() {
  MutexLock lock(mutex_);
  held_from_ = callbacks_.size();
}

void RunEvents::Release(std::vector<Callback> first) {
  MutexLock lock(mutex_);
  callbacks_.insert(callbacks_.begin() + static_cast<std::ptrdiff_t>(*held_from_),
                    std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  held_from_.reset();
}

void RunEvents::End(Status result) {
  Later([this, result = std::move(result)] {
    if (observer_.on_finished) observer_.on_finished(result);
    MutexLock lock(mutex_);
    result_ = result;
    ended_ = true;
  });
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

Status RunEvents::WaitUntilEnd() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!ended_ && (draining_ || held_from_ || callbacks_.empty())) changed_.Wait(mutex_);
      if (ended_) return result_;
    }
    Drain();
  }
}

}  // namespace rivulet
