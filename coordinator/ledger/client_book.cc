#include "coordinator/ledger/client_book.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr int64_t kExactTo = 60'000;  // milliseconds

}  // namespace

void ClientBook::Saw(const std::string& client_id, int64_t unix_ms) {
  Seen& seen = seen_[client_id];
  seen.unix_ms = unix_ms;
  if (seen.waits || seen.unix_ms <= seen.written_unix_ms) return;
  seen.waits = true;
  waiting_.emplace(seen.written_unix_ms + kExactTo, client_id);
}

std::optional<TimeMs> ClientBook::LastHeard(const std::string& client_id) const {
  const auto found = seen_.find(client_id);
  return found == seen_.end() ? std::nullopt : found->second.heard;
}

void ClientBook::Left(const std::string& client_id) {
  if (const auto found = seen_.find(client_id); found != seen_.end()) found->second.heard.reset();
}

std::vector<std::pair<std::string, int64_t>> ClientBook::TakeSeen(const ClosedAttempt& attempt, int64_t now_unix_ms,
                                                                  bool finishes_run) {
  std::vector<std::pair<std::string, int64_t>> due;
  const auto write = [&](const std::string& client_id, Seen& seen) {
    if (seen.unix_ms <= seen.written_unix_ms) return;
    seen.written_unix_ms = seen.unix_ms;
    due.emplace_back(client_id, seen.unix_ms);
  };
  for (const ClosedAttempt::ClosedTask& task : attempt.tasks) {
    if (task.lease.served_by_another()) {
      due.emplace_back(task.lease.client_id, now_unix_ms);
    } else if (const auto found = seen_.find(task.lease.client_id); found != seen_.end()) {
      write(found->first, found->second);
    }
  }
  while (!waiting_.empty() && (finishes_run || waiting_.top().first <= now_unix_ms)) {
    const std::string client_id = waiting_.top().second;
    waiting_.pop();
    Seen& seen = seen_[client_id];
    seen.waits = false;
    if (finishes_run || now_unix_ms - seen.written_unix_ms >= kExactTo) {
      write(client_id, seen);
    } else if (seen.unix_ms > seen.written_unix_ms) {
      seen.waits = true;
      waiting_.emplace(seen.written_unix_ms + kExactTo, client_id);
    }
  }
  return due;
}

void ClientBook::Remember(const std::string& client_id, TaskOutcome outcome) {
  outcomes_[client_id] = std::move(outcome);
}

void ClientBook::IsDurable(const std::string& client_id, const TaskId& task) {
  const auto found = outcomes_.find(client_id);
  if (found != outcomes_.end() && found->second.task == task) found->second.durable = true;
}

const TaskOutcome* ClientBook::LastOutcome(const std::string& client_id) const {
  const auto found = outcomes_.find(client_id);
  return found == outcomes_.end() ? nullptr : &found->second;
}

bool ClientBook::ShouldLookUp(const std::string& client_id) {
  return !outcomes_.contains(client_id) && looked_up_.emplace(client_id, true).second;
}

}  // namespace rivulet
