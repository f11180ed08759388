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

// Thread-safe. Costs a lookup a call, and some 300 bytes a name that took part or was refused lately.
class ClientRegistry final : public CoordinatorApi {
 public:
  // `api` must outlive it. `now_unix_ms`: milliseconds since 1970 UTC.
  ClientRegistry(CoordinatorApi& api, std::function<int64_t()> now_unix_ms) : api_(api), now_(std::move(now_unix_ms)) {}

  // PERMISSION_DENIED beside what the api says: the caller is banned. Of an aggregator that is done to the names it
  // serves, and RESOURCE_EXHAUSTED to those that are more than it may bring, or that the run has no place for. A client
  // with a certificate that the run has no place for is answered and not refused: it waits.
  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override;

  // Who hears, in a sentence, that two processes take turns under one name; at most once a minute for each. Before the
  // first call.
  void OnDoubled(std::function<void(const std::string& sentence)> on_doubled) { on_doubled_ = std::move(on_doubled); }

  // The clients that know that their run is over.
  EndNotices& end_notices() { return notices_; }

  // How many names one aggregator may bring; 0: any number. Before the first call.
  void BoundAggregators(int64_t most_names) { brought_ = AggregatorNames(most_names); }

  // Polls of this name that are held are answered with the ban.
  void Ban(const std::string& client_id, const std::string& reason);
  // Lifts a ban, and lets in whom nobody else expects.
  void Approve(const std::string& client_id);
  // It is as if it had never called, and an approval is withdrawn; a ban stays.
  void Forget(const std::string& client_id);
  bool approved(const std::string& client_id) const;
  bool banned(const std::string& client_id) const;
  // Somebody called whom nobody expects, for `detail`: an operator may approve it.
  void Knocked(const std::string& client_id, const std::string& detail);
  // The certificate of this serial was refused as revoked. True: it is the one under which the name was heard of last,
  // or nobody has called by that name yet, so that what the name has to do is to be given to others. False: the name
  // goes on under another certificate, or it was said before. The name is revoked until it is heard of again.
  bool Revoked(const std::string& client_id, const std::string& serial, const std::string& sentence);
  // What it brought was refused, or it could not do its task.
  void Failed(const std::string& client_id, const std::string& sentence);

  // Whoever has called, is banned or revoked, or waits for an operator's word; not what they work on. By name, behind
  // `after`, at most `most`.
  std::vector<ClientState> Clients(const std::string& after, size_t most) const;
  struct Counts {
    int64_t connected = 0, away = 0, banned = 0, waiting = 0;
  };
  Counts counts() const;
  // Of whoever is connected and has a certificate: when the first of them ends, in milliseconds since 1970; 0: nobody.
  int64_t first_certificate_end() const;

 private:
  struct Entry {
    std::string via, serial, version, error;
    bool aggregator = false;
    int64_t seen = 0, expected_by = 0;  // when it was heard of, and is to be heard of at the latest
    int64_t error_at = 0, valid_until = 0;
    uint64_t session = 0, session_before = 0;  // of its processes, the last and the one before
    int turns = 0;                             // that these two have taken
    int64_t doubled_at = 0;                    // when it was said
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
  Entry* EntryOf(const std::string& client_id) REQUIRES(mutex_);  // a new one, as long as there is room; else null
  void Heard(const Caller& caller, int64_t expected_in_ms) REQUIRES(mutex_);
  // Whether it is to be said now that another process of this name is alive.
  bool IsDoubled(const Caller& caller) REQUIRES(mutex_);
  StatusOr<PollReply> PassPoll(const PollRequest& request, bool* doubled);
  void NoteError(const std::string& client_id, std::string_view sentence) REQUIRES(mutex_);
  // Passed on, unless the caller is banned; what goes wrong is noted.
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
  // Taken alone: news comes under the coordinator's locks.
  Mutex news_mutex_;
  NewsListener* listener_ GUARDED_BY(news_mutex_) = nullptr;
};

}  // namespace rivulet
