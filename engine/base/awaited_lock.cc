#include "engine/base/awaited_lock.h"

#include <thread>

namespace rivulet {

StatusOr<std::unique_ptr<FileLock>> AwaitLock(const std::string& path, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kBetweenTries{10};
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto lock = FileLock::Acquire(path);
    if (!absl::IsUnavailable(lock.status()) || std::chrono::steady_clock::now() >= end) return lock;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace rivulet
