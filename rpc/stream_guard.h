// Limits on open streams: their number per peer and connection, and the time that a silent peer may keep one. A stream
// costs the server memory and a place; silent streams must not take them from active ones.
//
//   Enter ──→ Name ──→ (Waiting Moved)* ──→ End ──→ Leave
//     └── unauthenticated until then: few a connection, and seconds to authenticate
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

struct StreamLimits {
  int unnamed_per_connection = 16;
  int per_name = 2;  // of a kind, over all connections: an unnoticed broken one, and its successor
  std::chrono::milliseconds header_timeout = std::chrono::seconds(5);  // from Enter to Name
  std::chrono::milliseconds stall_timeout = std::chrono::minutes(2);   // of one Waiting
};

// Registry of open streams. Thread-safe.
class StreamGuard {
 public:
  explicit StreamGuard(const StreamLimits& limits);
  ~StreamGuard();  // it must be empty

  // Adds a stream of `connection` with an unknown caller. `cancel` ends it if its peer takes too long. It is called on
  // a thread of the guard, never after Leave has returned, and must neither block nor call the guard. UNAVAILABLE: the
  // connection has too many streams.
  StatusOr<uint64_t> Enter(const std::string& connection, std::function<void()> cancel);
  // Sets its caller `name`, for `what` ("uploads"). UNAVAILABLE: that name has too many; the stream stays in the guard.
  Status Name(uint64_t stream, const std::string& name, const std::string& what);
  // Call these around every wait for the peer, but not around the server's own work.
  void Waiting(uint64_t stream);
  void Moved(uint64_t stream);
  // Call it before the last message: its receiver may open another stream before this one leaves.
  void End(uint64_t stream);
  void Leave(uint64_t stream);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string connection;  // "" once it has a name
    std::string key;         // in named_
    std::function<void()> cancel;
    Clock::time_point end;  // when it is cancelled; max() while the server works
  };
  void Watch();

  const StreamLimits limits_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t entered_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Entry> streams_ GUARDED_BY(mutex_);
  std::map<std::string, int> unnamed_ GUARDED_BY(mutex_);  // by connection
  std::map<std::string, int> named_ GUARDED_BY(mutex_);    // by what and name
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rivulet
