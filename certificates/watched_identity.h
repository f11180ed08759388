// A node's identity that follows its folder: a renewed certificate or a new revocation list takes effect without a
// restart. New files are checked completely (LoadIdentity). Invalid ones change nothing: the last valid identity stays,
// and the reason is logged. A revocation list is separate: an invalid or older one leaves the last one in force
// (revocation_record.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "certificates/identity.h"
#include "engine/base/mutex.h"

namespace rivulet {

struct WatchOptions {
  // Receives messages for a person, one sentence a call, each once until another replaces it: the days left of a
  // certificate, that the folder was read again, or why it was not. Called on the thread that reads the folder; it must
  // not call back.
  std::function<void(const std::string& sentence)> tell;
  int64_t look_every_ms = 1000;
  // Where the last valid revocation list is stored, so that an earlier one is refused after a restart too: a path to
  // which its name is appended (revocation_record.h). "": in memory alone.
  std::string lists_beside = {};
};

// Identity that follows its folder. Thread-safe.
class WatchedIdentity {
 public:
  // Errors as LoadIdentity's. `fs` and `clock` must outlive it.
  static StatusOr<std::unique_ptr<WatchedIdentity>> Open(FileSystem& fs, const Clock& clock, const std::string& folder,
                                                         WatchOptions options);

  // Never null. Reads the folder again if the last check is `look_every_ms` old.
  std::shared_ptr<const NodeIdentity> Current();
  // Reads the folder at once.
  std::shared_ptr<const NodeIdentity> Look();

  // The present warnings, a sentence each, like those passed to `tell`, for a node's status.
  std::vector<std::string> Warnings();

  const Clock& clock() const { return clock_; }
  int64_t now() const { return clock_.UnixMs() / 1000; }

 private:
  WatchedIdentity(FileSystem& fs, const Clock& clock, std::string folder, WatchOptions options)
      : fs_(fs),
        clock_(clock),
        folder_(std::move(folder)),
        options_(std::move(options)),
        record_(fs, options_.lists_beside) {}
  Status Read() REQUIRES(mutex_);
  void LookLocked() REQUIRES(mutex_);
  void TellState() REQUIRES(mutex_);
  void Tell(std::string& last, std::string sentence) REQUIRES(mutex_);

  FileSystem& fs_;
  const Clock& clock_;
  const std::string folder_;
  const WatchOptions options_;
  Mutex mutex_;
  std::shared_ptr<const NodeIdentity> identity_ GUARDED_BY(mutex_);
  std::string bytes_ GUARDED_BY(mutex_);  // of all its files, valid or not, as last read
  TimeMs looked_ GUARDED_BY(mutex_) = 0;
  RevocationRecord record_ GUARDED_BY(mutex_);
  std::string told_expiry_ GUARDED_BY(mutex_), told_fault_ GUARDED_BY(mutex_), told_list_ GUARDED_BY(mutex_),
      told_list_expiry_ GUARDED_BY(mutex_), told_not_kept_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
