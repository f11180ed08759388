#include "rpc/transfer_places.h"

#include <algorithm>

#include "engine/base/check.h"

namespace rivulet {

TransferPlaces::TransferPlaces(int places, const TransferLimits& limits)
    : places_(places), limits_(limits), thread_([this] { Watch(); }) {}

TransferPlaces::~TransferPlaces() {
  {
    MutexLock lock(mutex_);
    RIVULET_CHECK(moving_.empty() && queue_.empty(), "{} transfers outlive their places",
                  moving_.size() + queue_.size());
    closing_ = true;
  }
  queued_.NotifyAll();
  thread_.join();
}

void TransferPlaces::Enter(uint64_t transfer, std::function<void()> go) {
  MutexLock lock(mutex_);
  const bool watched = !queue_.empty();  // else Watch sleeps until it is woken
  queue_.emplace_back(transfer, std::move(go));
  Admit();
  if (!watched && !queue_.empty()) queued_.NotifyOne();
}

void TransferPlaces::Hurry(uint64_t transfer) {
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [transfer](const auto& one) { return one.first == transfer; });
  if (found == queue_.end()) return;
  const std::function<void()> go = std::move(found->second);
  queue_.erase(found);
  go();
}

void TransferPlaces::Waiting(uint64_t transfer) {
  MutexLock lock(mutex_);
  if (const auto found = moving_.find(transfer); found != moving_.end()) found->second.since = Clock::now();
}

// A peer's lateness is at most twice the pause, so one that was slow for an hour soon counts as fast again.
void TransferPlaces::Moved(uint64_t transfer, int64_t bytes) {
  MutexLock lock(mutex_);
  const auto found = moving_.find(transfer);
  if (found == moving_.end()) return;
  Moving& moving = found->second;
  const Clock::duration waited =
      moving.since == Clock::time_point::max() ? Clock::duration::zero() : Clock::now() - moving.since;
  const std::chrono::duration<double> explained(static_cast<double>(bytes) /
                                                static_cast<double>(limits_.bytes_per_second));
  const Clock::duration late = moving.late + waited - std::chrono::duration_cast<Clock::duration>(explained);
  moving.late = std::clamp<Clock::duration>(late, Clock::duration::zero(), 2 * limits_.pause);
  moving.since = Clock::time_point::max();
}

bool TransferPlaces::KeepsUp(uint64_t transfer) {
  MutexLock lock(mutex_);
  const auto found = moving_.find(transfer);
  return found != moving_.end() && found->second.late <= limits_.pause;
}

void TransferPlaces::Leave(uint64_t transfer) {
  MutexLock lock(mutex_);
  if (moving_.erase(transfer) > 0) Admit();
}

void TransferPlaces::Admit() {
  if (queue_.empty()) return;
  const Clock::time_point now = Clock::now();
  auto held = std::count_if(moving_.begin(), moving_.end(), [&](const auto& one) {
    const Moving& moving = one.second;
    return moving.late + (now > moving.since ? now - moving.since : Clock::duration::zero()) <= limits_.pause;
  });
  for (; held < places_ && !queue_.empty(); ++held) {
    const auto [transfer, go] = std::move(queue_.front());
    queue_.pop_front();
    moving_.emplace(transfer, Moving());
    go();
  }
}

// A peer that becomes slow causes no event. So this polls while transfers are queued.
void TransferPlaces::Watch() {
  MutexLock lock(mutex_);
  while (!closing_) {
    if (queue_.empty()) {
      queued_.Wait(mutex_);
    } else {
      queued_.WaitFor(mutex_, limits_.pause / 4);
    }
    Admit();
  }
}

}  // namespace rivulet
