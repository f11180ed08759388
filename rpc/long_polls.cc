#include "rpc/long_polls.h"

#include <utility>

namespace rivulet {

void LongPolls::Hold(const std::string& name, std::chrono::milliseconds time, Ask ask) {
  auto held = std::make_shared<Held>();
  held->name = name;
  held->ask = std::move(ask);
  {
    MutexLock lock(mutex_);
    held->last = closed_;
    polls_.emplace(name, held);
  }
  executor_.RunAt(Clock::System().Now() + time.count(), [this, weak = std::weak_ptr(held)] {
    const auto held = weak.lock();
    if (held == nullptr) return;  // answered long ago
    MutexLock lock(mutex_);
    held->last = true;
    Wake(held);
  });
  AskOn(held);
}

void LongPolls::Wake(const std::shared_ptr<Held>& held) {
  if (held->asking) {
    held->news = true;
  } else {
    held->asking = true;
    executor_.Run([this, held] { AskOn(held); });
  }
}

void LongPolls::AskOn(const std::shared_ptr<Held>& held) {
  for (;;) {
    bool last = false;
    {
      MutexLock lock(mutex_);
      held->news = false;
      last = held->last;
    }
    const bool answered = held->ask(last);
    MutexLock lock(mutex_);
    if (answered) {
      auto [at, end] = polls_.equal_range(held->name);
      while (at != end && at->second != held) ++at;
      if (at != end) polls_.erase(at);
      return;
    }
    if (!held->news) {
      held->asking = false;
      return;
    }
  }
}

void LongPolls::News(const std::string& name) {
  MutexLock lock(mutex_);
  const auto [begin, end] = name.empty() ? std::pair(polls_.begin(), polls_.end()) : polls_.equal_range(name);
  for (auto at = begin; at != end; ++at) Wake(at->second);
}

void LongPolls::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  for (const auto& [name, held] : polls_) {
    held->last = true;
    Wake(held);
  }
}

}  // namespace rivulet
