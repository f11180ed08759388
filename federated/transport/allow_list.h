// A CoordinatorApi that passes on the calls of expected clients and refuses all others. Without certificates it keeps
// unknown names out of a run; with certificates it admits a subset of the signed names. An aggregator's clients are
// checked one by one. Whether aggregators may connect is the server's setting.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/rate_limited_log.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Parses the names in `text`, one per line; empty lines and lines that start with '#' are ignored. INVALID_ARGUMENT
// names `where` and the line: not a valid client name, a repeated name, or no names at all.
StatusOr<std::set<std::string, std::less<>>> ParseClientNames(std::string_view text, std::string_view where);

// Callbacks about callers that are not in the file. Called without locks, on any thread.
struct AdmissionHooks {
  std::function<bool(const std::string& name)> approved = {};     // whether to admit this client; null: no
  std::function<void(const std::string& name)> on_stranger = {};  // receives names of refused clients
};

// Thread-safe.
class AllowList final : public CoordinatorApi {
 public:
  // Admits the names in the file `path`. The file is read again when an unknown client calls, so that a name can be
  // added without a restart; if it is then invalid, the old list stays. `tell` receives log sentences about unknown
  // callers. `api` and `fs` must outlive this. Errors as ParseClientNames and of the file.
  static StatusOr<std::unique_ptr<AllowList>> Open(CoordinatorApi& api, FileSystem& fs, const std::string& path,
                                                   std::function<void(const std::string& sentence)> tell,
                                                   AdmissionHooks hooks = {});

  // PERMISSION_DENIED for clients that are not on the list; otherwise the api's replies.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override { api_.SetListener(listener); }

 private:
  AllowList(CoordinatorApi& api, FileSystem& fs, std::string path, std::function<void(const std::string&)> tell,
            AdmissionHooks hooks)
      : api_(api), fs_(fs), path_(std::move(path)), hooks_(std::move(hooks)), teller_(std::move(tell)) {}
  // Reads the file without a lock, so that a slow disk does not delay clients on the list.
  Status Read() EXCLUDES(mutex_);
  Status Admit(const Caller& caller);

  CoordinatorApi& api_;
  FileSystem& fs_;
  const std::string path_;
  const AdmissionHooks hooks_;
  RateLimitedLog teller_;
  Mutex mutex_;
  std::string text_ GUARDED_BY(mutex_);  // contents of the file at its last read
  std::set<std::string, std::less<>> names_ GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> aggregators_ GUARDED_BY(mutex_);  // have polled, and may submit partial sums
};

}  // namespace rivulet
