#include "cli/long_work.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/table.h"
#include "cli/terminal.h"

namespace rivulet {

LongWork::LongWork(std::string what) : what_(std::move(what)), terminal_(StderrIsTerminal()) {}

LongWork::~LongWork() {
  if (open_) std::fputs("\r\033[K", stderr);
}

DataProgress LongWork::progress() {
  return [this](int64_t done, int64_t total) -> Status {
    if (interrupt_.happened()) return Cancelled("stopped while {}; nothing was left half-written", what_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return absl::OkStatus();
    if (CurrentProgressStyle() == ProgressStyle::kQuiet) {
      next_ = now + std::chrono::seconds(1);
      return absl::OkStatus();
    }
    if (CurrentProgressStyle() == ProgressStyle::kJson) {
      fmt::print(stderr, "{}\n", JsonObject({{"progress", what_}, {"done", done}, {"total", total}}));
      next_ = now + std::chrono::seconds(1);
      return absl::OkStatus();
    }
    const std::string percent = fmt::format(" {} %", total > 0 ? done * 100 / total : 0);
    if (terminal_) {
      const size_t columns = TerminalColumns();
      std::string what = what_;  // a path is longer than a line may be
      if (what.size() + percent.size() > columns) what.resize(columns - std::min(columns, percent.size()));
      fmt::print(stderr, "\r\033[K{}{}", what, percent);
      open_ = true;
      next_ = now + std::chrono::milliseconds(100);
    } else {
      fmt::print(stderr, "{}{}\n", what_, percent);
      next_ = now + std::chrono::seconds(5);
    }
    std::fflush(stderr);
    return absl::OkStatus();
  };
}

}  // namespace rivulet
