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

// The names in `text`, one a line; empty lines and what follows a '#' at the beginning of a line do not count.
// INVALID_ARGUMENT names `where` and the line: a name that no client can have, one that is there twice, or no name.
StatusOr<std::set<std::string, std::less<>>> ParseClientNames(std::string_view text, std::string_view where);

// Who else may come, beside those of the file. Called without locks, on any thread.
struct AdmissionHooks {
  std::function<bool(const std::string& name)> approved = {};     // null: nobody
  std::function<void(const std::string& name)> on_stranger = {};  // who was refused because nobody expects it
};

// Thread-safe.
class AllowList final : public CoordinatorApi {
 public:
  // Those whose names stand in the file `path`. It is read again when somebody calls who is not in it, so that a name
  // can be added without a restart; what is no list any more changes nothing. `tell` hears of whom nobody expects.
  // `api` and `fs` must outlive it. Errors as ParseClientNames and of the file.
  static StatusOr<std::unique_ptr<AllowList>> Open(CoordinatorApi& api, FileSystem& fs, const std::string& path,
                                                   std::function<void(const std::string& sentence)> tell,
                                                   AdmissionHooks hooks = {});

  // PERMISSION_DENIED beside what the api says.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override { api_.SetListener(listener); }

 private:
  AllowList(CoordinatorApi& api, FileSystem& fs, std::string path, std::function<void(const std::string&)> tell,
            AdmissionHooks hooks)
      : api_(api), fs_(fs), path_(std::move(path)), hooks_(std::move(hooks)), teller_(std::move(tell)) {}
  // Reads the file with no lock held, so that a slow disk delays no client of the list.
  Status Read() EXCLUDES(mutex_);
  Status Admit(const Caller& caller);

  CoordinatorApi& api_;
  FileSystem& fs_;
  const std::string path_;
  const AdmissionHooks hooks_;
  RateLimitedLog teller_;
  Mutex mutex_;
  std::string text_ GUARDED_BY(mutex_);  // of the file, as last seen
  std::set<std::string, std::less<>> names_ GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> aggregators_ GUARDED_BY(mutex_);  // that have polled, and may bring what they hold
};

}  // namespace rivulet
