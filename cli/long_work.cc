#include "cli/long_work.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

std::string CountOf(double count, bool bytes) {
  return bytes ? BytesText(static_cast<int64_t>(count)) : fmt::format("{:.{}f}", count, count < 10 ? 1 : 0);
}

}  // namespace

WorkProgress::WorkProgress(std::string what, Lines lines, bool bytes)
    : what_(std::move(what)), lines_(lines), bytes_(bytes), terminal_(StderrIsTerminal()) {
  next_ = start_;
  if (lines_ == Lines::kSeldom || terminal_) next_ += std::chrono::seconds(1);
}

WorkProgress::~WorkProgress() {
  if (open_) std::fputs("\r\033[K", stderr);
}

std::string WorkProgress::Line(int64_t done, int64_t total, size_t columns) const {
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string share, bar, left;
  if (total > 0 && done <= total) {
    share = fmt::format(" {} %", done * 100 / total);
    bar = fmt::format(" [{}]", Bar(done, total, 20));
    if (rate > 0 && done < total)
      left = fmt::format(", ETA {}", FormatDuration(static_cast<double>(total - done) / rate));
  } else {
    share = fmt::format(" {}", CountOf(static_cast<double>(done), bytes_));
  }
  // A slow rate is given per minute, since it would be 0 per second.
  const bool slow = rate < 0.1 && !bytes_;
  const std::string speed = fmt::format(", {}/{}", CountOf(slow ? 60 * rate : rate, bytes_), slow ? "min" : "s");
  // The least important parts are left out first; a path may be longer than a line.
  for (const std::string& line :
       {what_ + bar + share + speed + left, what_ + share + speed + left, what_ + share + left, what_ + share})
    if (columns == 0 || line.size() <= columns) return line;
  return what_.substr(0, columns - std::min(columns, share.size())) + share;
}

void WorkProgress::Tell(int64_t done, int64_t total) {
  const auto now = SteadyClock::now();
  if (now < next_ || CurrentProgressStyle() == ProgressStyle::kQuiet) return;
  const bool each = lines_ == Lines::kEach;
  if (CurrentProgressStyle() == ProgressStyle::kJson) {
    fmt::print(stderr, "{}\n",
               JsonObject({{"progress", what_},
                           {"done", done},
                           {"total", total > 0 ? Cell(total) : Cell()},
                           {"seconds", std::chrono::duration<double>(now - start_).count()}}));
    next_ = each ? now : now + std::chrono::seconds(1);
  } else if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", Line(done, total, TerminalColumns()));
    open_ = true;
    next_ = now + std::chrono::milliseconds(100);
  } else {
    fmt::print(stderr, "{}\n", Line(done, total, 0));
    next_ = each ? now : now + std::chrono::seconds(5);
  }
  std::fflush(stderr);
}

DataProgress LongWork::progress() {
  return [this](int64_t done, int64_t total) -> Status {
    if (interrupt_.happened()) return Cancelled("stopped while {}; nothing was left half-written", progress_.what());
    progress_.Tell(done, total);
    return absl::OkStatus();
  };
}

}  // namespace rivulet
