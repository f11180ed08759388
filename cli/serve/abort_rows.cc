#include "cli/serve/abort_rows.h"

#include <chrono>
#include <utility>

#include "engine/base/clock.h"
#include "serving/point.h"

namespace rivulet {
namespace {

constexpr std::chrono::seconds kAgain{1};

}  // namespace

AbortRows::AbortRows(std::string author, std::function<void(const std::string& sentence)> tell)
    : author_(std::move(author)), tell_(std::move(tell)), thread_([this] { Work(); }) {}

AbortRows::~AbortRows() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void AbortRows::Add(AbortedCanary canary) {
  {
    MutexLock lock(mutex_);
    left_.push_back(std::move(canary));
  }
  changed_.NotifyAll();
}

bool AbortRows::Write(const AbortedCanary& canary, std::string& told) {
  const Status status = TakeShare(FileSystem::Default(), canary.db, canary.name, kCanaryLabel, canary.label,
                                  canary.reason, author_, Clock::System().UnixMs())
                            .status();
  if (status.ok() || absl::IsAborted(status)) return true;
  if (told != Message(status)) {
    told = std::string(Message(status));
    tell_(fmt::format("that '{}={}' gets no requests could not be written and is tried again: {}", canary.name,
                      kCanaryLabel, told));
  }
  return false;
}

void AbortRows::Work() {
  std::string told;
  std::vector<AbortedCanary> tried;  // tried and not written
  while (true) {
    bool last = false;
    {
      MutexLock lock(mutex_);
      if (tried.empty()) {
        while (left_.empty() && !closing_) changed_.Wait(mutex_);
      } else if (left_.empty() && !closing_) {
        changed_.WaitFor(mutex_, kAgain);
      }
      last = closing_;
      for (AbortedCanary& canary : left_) tried.push_back(std::move(canary));
      left_.clear();
    }
    std::erase_if(tried, [&](const AbortedCanary& canary) { return Write(canary, told); });
    if (last) return;
  }
}

}  // namespace rivulet
