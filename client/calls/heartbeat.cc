#include "client/calls/heartbeat.h"

#include <algorithm>

namespace rivulet {
namespace {

// Of a coordinator that does not say.
constexpr int64_t kWaitMs = 1000;

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

void Heartbeat::Begin(const PollRequest& request, const TaskId& task, int64_t wait_ms) {
  MutexLock lock(mutex_);
  request_ = request;
  request_.working_on.insert(request_.working_on.begin(), {task, false});
  request_.want = 0;
  request_.hold_ms = 0;  // a word that waits for its answer keeps no lease alive
  wait_ = WaitOf(wait_ms);
  next_ = Clock::now() + wait_;
  changed_.NotifyAll();
}

void Heartbeat::End() {
  MutexLock lock(mutex_);
  request_.working_on.clear();
  while (asking_) changed_.Wait(mutex_);
}

std::optional<PollReply::Over> Heartbeat::over() const {
  MutexLock lock(mutex_);
  return over_;
}

// A coordinator that cannot be reached is asked again at the next beat: whatever must be repeated is repeated by
// whoever trains and uploads.
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
    const PollRequest request = request_;
    asking_ = true;
    mutex_.Unlock();
    const StatusOr<PollReply> reply = api_.Poll(request);
    mutex_.Lock();
    asking_ = false;
    changed_.NotifyAll();
    if (reply.ok() && reply->over) over_ = reply->over;
    if (request_.working_on.empty()) continue;
    if (reply.ok()) {
      const TaskId& task = request.working_on[0].task;
      if (reply->over || std::ranges::find(reply->cancelled, task) != reply->cancelled.end()) {
        request_.working_on.clear();
        stop_.CancelTask();
        continue;
      }
      wait_ = WaitOf(reply->wait_ms);
    }
    next_ = Clock::now() + wait_;
  }
  mutex_.Unlock();
}

}  // namespace rivulet
