#include "cli/run/findings.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "cli/command.h"

namespace rivulet {

void Findings::Add(std::string what, std::string verdict, std::string text) {
  table_.Add({std::move(verdict), std::move(what), OneLine(text)});
}

void Findings::Good(std::string what, std::string text) { Add(std::move(what), "good", std::move(text)); }

void Findings::Soon(std::string what, std::string text) { Add(std::move(what), "soon", std::move(text)); }

void Findings::Wrong(std::string what, const Status& status, std::string mend) {
  ++wrong_;
  Add(std::move(what), "mend",
      mend.empty() ? std::string(Message(status)) : fmt::format("{}; {}", Message(status), mend));
}

Status Findings::Print(bool json) const {
  fmt::print("{}", json ? table_.Json() : table_.Text());
  if (wrong_ == 0) return absl::OkStatus();
  return FailedPrecondition("{} of {} checks failed", wrong_, table_.size());
}

void LookAtDisk(const std::string& folder, int64_t least, const std::string& otherwise, Findings& findings) {
  constexpr int64_t kMegabyte = 1'000'000;
  std::error_code ignored;
  std::filesystem::path there = std::filesystem::absolute(folder, ignored);
  while (!std::filesystem::exists(there, ignored) && there != there.parent_path()) there = there.parent_path();
  if (access(there.c_str(), W_OK | X_OK) != 0) {
    return findings.Wrong("disk", FailedPrecondition("'{}' may not be written by this user", there.string()),
                          fmt::format("give it to the user that runs this (chown), or {}", otherwise));
  }
  struct statvfs info;
  if (statvfs(there.c_str(), &info) != 0) return findings.Good("disk", "the free space is unknown");
  const int64_t free = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  const std::string text = fmt::format("{} MB are free for '{}'", free / kMegabyte, folder);
  if (free >= least) return findings.Good("disk", text);
  findings.Wrong("disk", ResourceExhausted("{}, and {} should be", text, least / kMegabyte),
                 fmt::format("make room, or {}", otherwise));
}

}  // namespace rivulet
