// The clients of a process, over all its runs: a CoordinatorApi that passes calls on and records each caller's time,
// certificate, software, aggregator and last error. It refuses banned clients from their next call on, and records
// which clients have received the end of their run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/control/aggregator_names.h"
#include "engine/base/mutex.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"
#include "federated/transport/end_notices.h"

namespace rivulet {

// Registry of clients. Thread-safe. Costs one lookup per call, and about 300 bytes per client or lately refused name.
class ClientRegistry final : public CoordinatorApi {
 public:
  // `api` must outlive it. `now_unix_ms`: milliseconds since 1970 UTC.
  ClientRegistry(CoordinatorApi& api, std::function<int64_t()> now_unix_ms) : api_(api), now_(std::move(now_unix_ms)) {}

  // As the wrapped api, and PERMISSION_DENIED: the caller is banned. For an aggregator this applies to the names it
  // serves, with RESOURCE_EXHAUSTED for those beyond its limit or without a place in the run. A client with a
  // certificate for which the run has no place is not refused: its reply asks it to wait.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override;

  // Sets the handler of a warning that two processes alternate under one name; at most one a minute per name. Call it
  // before the first call.
  void OnDoubled(std::function<void(const std::string& sentence)> on_doubled) { on_doubled_ = std::move(on_doubled); }

  // The clients that have received the end of their run.
  EndNotices& end_notices() { return notices_; }

  // The most names of one aggregator; 0: any number. Before the first call.
  void BoundAggregators(int64_t most_names) { brought_ = AggregatorNames(most_names); }

  // Open long polls of this name are answered with the ban.
  void Ban(const std::string& client_id, const std::string& reason);
  // Lifts a ban, and admits a client that is not on any list.
  void Approve(const std::string& client_id);
  // Removes its record, as if it had never called, and its approval; a ban stays.
  void Forget(const std::string& client_id);
  bool approved(const std::string& client_id) const;
  bool banned(const std::string& client_id) const;
  // Records a call by a client that is not on any list, with `detail`: an operator may approve it.
  void Knocked(const std::string& client_id, const std::string& detail);
  // The certificate of this serial was refused as revoked. True: the name last called with it, or has not called yet,
  // so its tasks must go to others. False: the name now uses another certificate, or the revocation was reported
  // before. The name counts as revoked until its next call.
  bool Revoked(const std::string& client_id, const std::string& serial, const std::string& sentence);
  // Its update was refused, or its task failed.
  void Failed(const std::string& client_id, const std::string& sentence);

  // The clients that have called, are banned or revoked, or wait for approval; without their work. Sorted by name,
  // after `after`, at most `most`.
  std::vector<ClientState> Clients(const std::string& after, size_t most) const;
  struct Counts {
    int64_t connected = 0, away = 0, banned = 0, waiting = 0;
  };
  Counts counts() const;
  // The first expiry of connected clients' certificates, in milliseconds since 1970; 0: there are none.
  int64_t first_certificate_end() const;

 private:
  struct Entry {
    std::string via, serial, version, error;
    bool aggregator = false;
    int64_t seen = 0, expected_by = 0;  // time of the last call, and latest time of the next
    int64_t error_at = 0, valid_until = 0;
    uint64_t session = 0, session_before = 0;  // the last two processes
    int turns = 0;                             // that these two have alternated
    int64_t doubled_at = 0;                    // time of the warning
  };
  struct Knock {
    std::string detail;
    int64_t at = 0;
  };
  struct Revocation {
    std::string sentence;
    int64_t at = 0;
  };

  Status CheckBan(const std::string& client_id) const REQUIRES(mutex_);
  Entry* EntryOf(const std::string& client_id) REQUIRES(mutex_);  // creates one while there is room; else null
  void Heard(const Caller& caller, int64_t expected_in_ms) REQUIRES(mutex_);
  // Whether to warn now that another process of this name is alive.
  bool IsDoubled(const Caller& caller) REQUIRES(mutex_);
  StatusOr<PollReply> PassPoll(const PollRequest& request, bool* doubled);
  void NoteError(const std::string& client_id, std::string_view sentence) REQUIRES(mutex_);
  // Passes a call on unless the caller is banned, and records errors.
  template <typename Ask>
  auto PassOn(const Caller& caller, const Ask& ask) -> decltype(ask());
  ClientState StateOf(const std::string& client_id) const REQUIRES(mutex_);

  CoordinatorApi& api_;
  EndNotices notices_;
  const std::function<int64_t()> now_;
  std::function<void(const std::string&)> on_doubled_;
  mutable Mutex mutex_;
  AggregatorNames brought_ GUARDED_BY(mutex_);
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> banned_ GUARDED_BY(mutex_);  // with the reason
  std::set<std::string> approved_ GUARDED_BY(mutex_);
  std::map<std::string, Knock> knocks_ GUARDED_BY(mutex_);
  std::map<std::string, Revocation> revoked_ GUARDED_BY(mutex_);
  // Taken alone: news arrives under the coordinator's locks.
  Mutex news_mutex_;
  NewsListener* listener_ GUARDED_BY(news_mutex_) = nullptr;
};

}  // namespace rivulet
