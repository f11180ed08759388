#include "client/calls/heartbeat.h"

#include <algorithm>
#include <span>
#include <utility>

namespace rivulet {
namespace {

// If the coordinator gives no interval.
constexpr int64_t kWaitMs = 1000;

// Between two polls for the next step, if the coordinator does not hold polls.
constexpr std::chrono::milliseconds kMostBetweenHeld{1000};

std::chrono::milliseconds WaitOf(int64_t wait_ms) {
  return std::chrono::milliseconds(wait_ms > 0 ? std::min<int64_t>(wait_ms, 60'000) : kWaitMs);
}

}  // namespace

Heartbeat::~Heartbeat() {
  {
    MutexLock lock(mutex_);
    leaving_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Heartbeat::Begin(const PollRequest& request, const TaskId& task, int64_t wait_ms, StepWork* steps) {
  MutexLock lock(mutex_);
  ++begun_;
  steps_ = steps;
  request_ = request;
  std::erase_if(request_.working_on, [&](const TaskProgress& one) { return one.task == task; });
  request_.working_on.insert(request_.working_on.begin(), {task, false});
  request_.want = 0;
  request_.hold_ms = 0;  // a poll that waits for its answer renews no lease
  wait_ = WaitOf(wait_ms);
  next_ = Clock::now() + wait_;
  changed_.NotifyAll();
}

void Heartbeat::StepsBegan() {
  MutexLock lock(mutex_);
  if (steps_ == nullptr || request_.working_on.empty()) return;
  next_ = Clock::now();
  changed_.NotifyAll();
}

void Heartbeat::End() {
  MutexLock lock(mutex_);
  request_.working_on.clear();
  while (asking_ && !held_) changed_.Wait(mutex_);
}

// Every poll lists its steps anew, because they change beside the heartbeat.
PollRequest Heartbeat::RequestWithSteps(PollRequest request, std::span<const TaskProgress> steps,
                                        std::chrono::milliseconds wait) {
  if (steps.empty()) return request;
  for (const TaskProgress& one : steps) {
    const auto same = std::ranges::find(request.working_on, one.task, &TaskProgress::task);
    if (same == request.working_on.end()) {
      request.working_on.push_back(one);
    } else {
      *same = one;
    }
  }
  request.hold_ms = wait.count();
  request.told = true;
  return request;
}

std::optional<PollReply::Over> Heartbeat::over() const {
  MutexLock lock(mutex_);
  return over_;
}

// An unreachable coordinator is called again at the next beat: training and uploads have their own
// retries.
void Heartbeat::Run() {
  mutex_.Lock();
  while (!leaving_) {
    if (request_.working_on.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (const auto left = next_ - Clock::now(); left.count() > 0) {
      changed_.WaitFor(mutex_, left);
      continue;
    }
    PollRequest request = request_;
    StepWork* const steps = steps_;
    const int64_t begun = begun_;
    asking_ = true;
    bool unsent = false;
    if (steps != nullptr) {
      mutex_.Unlock();
      steps->Answer(request.caller, true);
      const std::vector<TaskProgress> in_hand = steps->InHand();
      unsent = steps->HasUnsent();
      mutex_.Lock();
      request = RequestWithSteps(std::move(request), in_hand, unsent ? std::chrono::milliseconds(0) : wait_);
      held_ = request.hold_ms > 0;
      changed_.NotifyAll();
    }
    mutex_.Unlock();
    const StatusOr<PollReply> reply = api_.Poll(request);
    if (steps != nullptr && reply.ok()) steps->Take(request.caller, *reply, true);
    mutex_.Lock();
    const bool held = std::exchange(held_, false), same = begun == begun_;
    asking_ = false;
    changed_.NotifyAll();
    if (reply.ok() && reply->over) over_ = reply->over;
    if (held && over_) stop_.CancelTask();
    if (request_.working_on.empty() || !same) continue;
    if (reply.ok()) {
      const TaskId& task = request.working_on[0].task;
      if (reply->over || std::ranges::find(reply->cancelled, task) != reply->cancelled.end()) {
        request_.working_on.clear();
        stop_.CancelTask();
        continue;
      }
      // A held poll without news has waited already.
      const bool news = !reply->tasks.empty();
      if (!held || news) wait_ = WaitOf(reply->wait_ms);
      if (held) {
        next_ =
            Clock::now() + (news ? std::chrono::milliseconds(0) : std::min(WaitOf(reply->wait_ms), kMostBetweenHeld));
        continue;
      }
    }
    next_ = Clock::now() + (unsent ? std::min(wait_, kMostBetweenHeld) : wait_);
  }
  mutex_.Unlock();
}

}  // namespace rivulet
