#include "rpc/stream_guard.h"

#include <algorithm>

#include "engine/base/check.h"

namespace rivulet {
namespace {

void CountDown(std::map<std::string, int>& counts, const std::string& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

}  // namespace

StreamGuard::StreamGuard(const StreamLimits& limits) : limits_(limits), thread_([this] { Watch(); }) {}

StreamGuard::~StreamGuard() {
  {
    MutexLock lock(mutex_);
    RIVULET_CHECK(streams_.empty(), "{} streams outlive their guard", streams_.size());
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

StatusOr<uint64_t> StreamGuard::Enter(const std::string& connection, std::function<void()> cancel) {
  MutexLock lock(mutex_);
  int& open = unnamed_[connection];
  if (open >= limits_.unnamed_per_connection) {
    return Unavailable("{} streams of this connection have not named their client; name it before opening more", open);
  }
  ++open;
  streams_.emplace(++entered_, Entry{connection, "", std::move(cancel), Clock::now() + limits_.header_timeout});
  return entered_;
}

Status StreamGuard::Name(uint64_t stream, const std::string& name, const std::string& what) {
  MutexLock lock(mutex_);
  Entry& entry = streams_.at(stream);
  CountDown(unnamed_, std::exchange(entry.connection, ""));
  entry.end = Clock::time_point::max();
  std::string key = fmt::format("{} {}", what, name);
  int& open = named_[key];
  if (open >= limits_.per_name) {
    return Unavailable("client '{}' has {} {} under way; try again when one of them has ended", name, open, what);
  }
  ++open;
  entry.key = std::move(key);
  return absl::OkStatus();
}

void StreamGuard::Waiting(uint64_t stream) {
  MutexLock lock(mutex_);
  Entry& entry = streams_.at(stream);
  if (entry.connection.empty()) entry.end = Clock::now() + limits_.stall_timeout;
}

void StreamGuard::Moved(uint64_t stream) {
  MutexLock lock(mutex_);
  Entry& entry = streams_.at(stream);
  if (entry.connection.empty()) entry.end = Clock::time_point::max();
}

void StreamGuard::End(uint64_t stream) {
  MutexLock lock(mutex_);
  Entry& entry = streams_.at(stream);
  if (!entry.key.empty()) CountDown(named_, std::exchange(entry.key, ""));
}

void StreamGuard::Leave(uint64_t stream) {
  End(stream);
  MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (!found->second.connection.empty()) CountDown(unnamed_, found->second.connection);
  streams_.erase(found);
}

// Checks periodically instead of at each deadline: a delay of a quarter of a time-out does no harm, and a stream that
// moves, as nearly all do, costs no timer.
void StreamGuard::Watch() {
  const std::chrono::milliseconds often = std::min(limits_.header_timeout, limits_.stall_timeout) / 4;
  MutexLock lock(mutex_);
  while (!closing_) {
    changed_.WaitFor(
        mutex_, std::clamp<std::chrono::nanoseconds>(often, std::chrono::milliseconds(1), std::chrono::seconds(1)));
    const auto now = Clock::now();
    for (auto& [stream, entry] : streams_) {
      if (now < entry.end) continue;
      entry.end = Clock::time_point::max();
      entry.cancel();
    }
  }
}

}  // namespace rivulet
