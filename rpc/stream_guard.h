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
  int per_name = 2;  // of a kind, over all connections: one that broke unnoticed, and the one that goes on
  std::chrono::milliseconds header_timeout = std::chrono::seconds(5);  // from Enter to Name
  std::chrono::milliseconds stall_timeout = std::chrono::minutes(2);   // of one Waiting
};

// Thread-safe.
class StreamGuard {
 public:
  explicit StreamGuard(const StreamLimits& limits);
  ~StreamGuard();  // no stream is in it any more

  // A stream of `connection` whose caller is not known yet. `cancel` ends it when its peer takes too long; it is called
  // on a thread of the guard's, never after Leave has returned, and must neither block nor call the guard.
  // UNAVAILABLE: the connection has as many as it may have.
  StatusOr<uint64_t> Enter(const std::string& connection, std::function<void()> cancel);
  // It is `name`'s, for `what` ("uploads"). UNAVAILABLE: that name has as many; the stream stays in the guard.
  Status Name(uint64_t stream, const std::string& name, const std::string& what);
  // Brackets of every wait for the peer, and not of the server's own work.
  void Waiting(uint64_t stream);
  void Moved(uint64_t stream);
  // The last thing is about to be sent: whoever hears of it may open another stream before this one leaves.
  void End(uint64_t stream);
  void Leave(uint64_t stream);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string connection;  // "" once it is named
    std::string key;         // of named_
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
