// Profiling of a running process: another process of the same user requests a profile of its next steps.
//
// The process listens on a Unix socket in Linux's abstract namespace, "rivulet-profile-PID". There is no file, so
// nothing stale is left behind, and no signal can stop an unprepared process. Both sides check the peer (SO_PEERCRED):
// only the same user, or root, may request, and an answer is accepted only from the requested process. A request is one
// line, "profile STEPS". The answer is a profile as ProfileToJson gives it, without a roofline, or one line that begins
// with "error: ".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/profile/profile.h"
#include "engine/profile/step_monitor.h"

namespace rivulet {

inline constexpr int64_t kMostProfiledSteps = 1'000'000;

// Serves one request at a time; others wait. Without a request, a step costs one atomic load. Thread-safe.
class ProfileServer final : public RunSink {
 public:
  // `title` describes the process's activity. UNAVAILABLE: the socket is taken (by a process with the same number in
  // another container).
  static StatusOr<std::unique_ptr<ProfileServer>> Start(std::string title);
  // Answers a pending request with the steps seen so far. No run may be monitored any more.
  ~ProfileServer() override;

  bool Wants() override;
  bool MayWant() const override { return open_steps_.load(std::memory_order_relaxed) > 0; }
  void Take(const RecordedRun& run) override;
  void Lost() override { open_steps_.fetch_add(1); }

 private:
  ProfileServer(std::string title, int socket, int wake_read, int wake_write);
  void Serve();
  void Answer(int peer);

  const std::string title_;
  const int socket_, wake_read_, wake_write_;
  std::atomic<int64_t> open_steps_ = 0;  // steps not yet claimed by a run
  Mutex mutex_;
  CondVar recorded_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::unique_ptr<ProfileBuilder> builder_ GUARDED_BY(mutex_);  // non-null during a request
  std::vector<std::thread::id> threads_ GUARDED_BY(mutex_);     // that ran the request's steps
  std::thread thread_;
};

// Requests a profile of the next `steps` steps of process `pid` and waits for it. `interrupt`, a file descriptor or -1,
// ends the wait when it becomes readable. NOT_FOUND: no such process, or it does not listen. PERMISSION_DENIED: another
// user's process. CANCELLED: interrupted. FAILED_PRECONDITION: the process is stopped. UNAVAILABLE: it ended before the
// first step. INVALID_ARGUMENT: its answer is not a profile.
StatusOr<Profile> ProfileOfProcess(int pid, int64_t steps, int interrupt = -1);

}  // namespace rivulet
