#include "coordinator/control/client_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/display_name.h"
#include "engine/base/error_facts.h"
#include "federated/population/population.h"

namespace rivulet {
namespace {

// Names cost memory, and anyone may try some: the most names without admission that are kept.
constexpr size_t kMostRefused = 20'000, kMostKnocks = 1000;
constexpr int64_t kPatienceMs = 30'000;  // for a slow machine or network
constexpr size_t kLongestError = 300;    // bytes of an error
constexpr size_t kLongestVersion = 40;   // bytes of a client's software version

std::string Shortened(std::string_view sentence) {
  if (sentence.size() <= kLongestError) return std::string(sentence);
  size_t end = kLongestError;
  while (end > 0 && (static_cast<unsigned char>(sentence[end]) & 0xc0) == 0x80) --end;  // not within a character
  return std::string(sentence.substr(0, end)) + "…";
}

constexpr int64_t kWaitForPlaceMs = 5000;

bool HasNoPlace(const Status& status) { return !FactOf(status, kNoPlaceFact).empty(); }
std::string WaitsForPlace(const Status& status) {
  return fmt::format("{}, and waits for another run", Message(status));
}

const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& result) {
  return result.status();
}

}  // namespace

Status ClientRegistry::CheckBan(const std::string& client_id) const {
  const auto found = banned_.find(client_id);
  if (found == banned_.end()) return absl::OkStatus();
  return PermissionDenied("client '{}' is banned here{}{}; ask the coordinator's operator to approve it",
                          DisplayText(client_id, 80), found->second.empty() ? "" : ": ", found->second);
}

ClientRegistry::Entry* ClientRegistry::EntryOf(const std::string& client_id) {
  const auto found = entries_.find(client_id);
  if (found != entries_.end()) return &found->second;
  return entries_.size() < kMostRefused ? &entries_[client_id] : nullptr;
}

void ClientRegistry::Heard(const Caller& caller, int64_t expected_in_ms) {
  Entry& entry = entries_[caller.name];
  entry.seen = now_();
  entry.expected_by = entry.seen + expected_in_ms + kPatienceMs;
  entry.serial = caller.certificate_serial;
  entry.valid_until = caller.certificate_until * 1000;
  knocks_.erase(caller.name);   // it was admitted, so it waits no more
  revoked_.erase(caller.name);  // its certificate is another one now
}

void ClientRegistry::NoteError(const std::string& client_id, std::string_view sentence) {
  Entry* const entry = EntryOf(client_id);
  if (entry == nullptr) return;
  entry->error = Shortened(sentence);
  entry->error_at = now_();
}

// The previous process of a restarted client may appear once more, by an open long poll, and then the newer one again;
// two live processes continue to alternate.
bool ClientRegistry::IsDoubled(const Caller& caller) {
  constexpr int kTurnsOfTwo = 3;
  constexpr int64_t kSaidAgainMs = 60'000;
  Entry& entry = entries_[caller.name];
  if (caller.session == 0 || caller.session == entry.session) return false;
  entry.turns = caller.session == entry.session_before ? entry.turns + 1 : 0;
  entry.session_before = std::exchange(entry.session, caller.session);
  if (entry.turns < kTurnsOfTwo) return false;
  NoteError(caller.name, "two processes use this name in turn; stop one of them, or give it another name");
  if (entry.doubled_at != 0 && entry.seen - entry.doubled_at < kSaidAgainMs) return false;
  entry.doubled_at = entry.seen;
  return true;
}

StatusOr<PollReply> ClientRegistry::Poll(const PollRequest& request) {
  bool doubled = false;
  StatusOr<PollReply> reply = PassPoll(request, &doubled);
  if (doubled && on_doubled_) {
    on_doubled_(
        fmt::format("two processes call as '{}' and take its tasks in turn; stop one of them, or give it another name",
                    DisplayText(request.caller.name, 80)));
  }
  return reply;
}

// The next poll of a caller with tasks is its heartbeat. Others poll again after the reply's wait, or after the
// transport ends the long poll.
StatusOr<PollReply> ClientRegistry::PassPoll(const PollRequest& request, bool* doubled) {
  const Caller& caller = request.caller;
  const bool aggregator = request.serves.kind == Serves::Kind::kNames;
  std::vector<RefusedName> refused;
  {
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(CheckBan(caller.name));
    for (const ServedName& served : request.serves.names) {
      Status status = CheckBan(served.name);
      if (status.ok() && !brought_.Admit(caller.name, served.name)) {
        status = ResourceExhausted(
            "aggregator '{}' serves {} clients, the most allowed (--aggregator-clients); '{}' waits for a place",
            caller.name, brought_.most(), DisplayText(served.name, 80));
      }
      if (!status.ok()) refused.push_back({served.name, std::move(status)});
    }
  }
  std::optional<PollRequest> lesser;  // without refused names: a request has thousands, and rarely a banned one
  if (!refused.empty()) {
    lesser = request;
    std::erase_if(lesser->serves.names, [&](const ServedName& served) {
      return std::ranges::find(refused, served.name, &RefusedName::name) != refused.end();
    });
  }
  const PollRequest& admitted = lesser ? *lesser : request;
  StatusOr<PollReply> reply = api_.Poll(admitted);
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckBan(caller.name));  // banned meanwhile: its new tasks lapse
  if (!reply.ok()) {
    NoteError(caller.name, Message(reply.status()));
    if (caller.proven != Caller::Proven::kClient || !HasNoPlace(reply.status())) return reply;
    PollReply waits;
    waits.wait_ms = kWaitForPlaceMs;
    waits.awaited.sentence = WaitsForPlace(reply.status());
    return waits;
  }
  notices_.Answered(admitted, *reply);
  const int64_t expected = reply->wait_ms + (reply->tasks.empty() ? request.hold_ms : 0);
  Heard(caller, expected);
  entries_[caller.name].aggregator = aggregator;
  entries_[caller.name].version = DisplayText(request.capabilities.version, kLongestVersion);
  *doubled = IsDoubled(caller);
  for (const ServedName& served : admitted.serves.names) {
    const auto turned = std::ranges::find(reply->refused_names, served.name, &RefusedName::name);
    if (turned != reply->refused_names.end()) {
      NoteError(served.name, Message(turned->reason));
      brought_.Withdraw(caller.name, served.name);
      if (HasNoPlace(turned->reason)) turned->reason = absl::ResourceExhaustedError(WaitsForPlace(turned->reason));
      continue;
    }
    Heard({.name = served.name}, expected);
    entries_[served.name].via = caller.name;
    entries_[served.name].version.clear();
  }
  if (!aggregator) entries_[caller.name].via.clear();
  reply->refused_names.insert(reply->refused_names.end(), refused.begin(), refused.end());
  return reply;
}

template <typename Ask>
auto ClientRegistry::PassOn(const Caller& caller, const Ask& ask) -> decltype(ask()) {
  {
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(CheckBan(caller.name));
  }
  auto answer = ask();
  if (!answer.ok()) {
    MutexLock lock(mutex_);
    if (entries_.contains(caller.name)) NoteError(caller.name, Message(StatusOf(answer)));
  }
  return answer;
}

StatusOr<std::unique_ptr<ChunkReader>> ClientRegistry::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  return PassOn(caller, [&] { return api_.Fetch(caller, blob, offset); });
}

StatusOr<std::unique_ptr<ChunkWriter>> ClientRegistry::Submit(const Caller& caller, const Submission& submission) {
  return PassOn(caller, [&] { return api_.Submit(caller, submission); });
}

Status ClientRegistry::Fail(const Caller& caller, const TaskFailure& failure) {
  const Status answer = PassOn(caller, [&] { return api_.Fail(caller, failure); });
  MutexLock lock(mutex_);
  if (entries_.contains(caller.name)) NoteError(caller.name, SentenceOf(failure));
  return answer;
}

void ClientRegistry::SetListener(NewsListener* listener) {
  {
    MutexLock lock(news_mutex_);
    listener_ = listener;
  }
  api_.SetListener(listener);
}

void ClientRegistry::Ban(const std::string& client_id, const std::string& reason) {
  {
    MutexLock lock(mutex_);
    banned_[client_id] = Shortened(reason);
    approved_.erase(client_id);
    knocks_.erase(client_id);
  }
  MutexLock lock(news_mutex_);
  if (listener_ != nullptr) listener_->OnNews(client_id);
}

void ClientRegistry::Approve(const std::string& client_id) {
  MutexLock lock(mutex_);
  banned_.erase(client_id);
  knocks_.erase(client_id);
  approved_.insert(client_id);
}

void ClientRegistry::Forget(const std::string& client_id) {
  MutexLock lock(mutex_);
  entries_.erase(client_id);
  knocks_.erase(client_id);
  revoked_.erase(client_id);
  approved_.erase(client_id);
}

bool ClientRegistry::approved(const std::string& client_id) const {
  MutexLock lock(mutex_);
  return approved_.contains(client_id);
}

bool ClientRegistry::banned(const std::string& client_id) const {
  MutexLock lock(mutex_);
  return banned_.contains(client_id);
}

void ClientRegistry::Knocked(const std::string& client_id, const std::string& detail) {
  MutexLock lock(mutex_);
  if (banned_.contains(client_id) || (knocks_.size() >= kMostKnocks && !knocks_.contains(client_id))) return;
  knocks_[client_id] = {Shortened(detail), now_()};
}

bool ClientRegistry::Revoked(const std::string& client_id, const std::string& serial, const std::string& sentence) {
  MutexLock lock(mutex_);
  const auto entry = entries_.find(client_id);
  const bool known = entry != entries_.end() && entry->second.seen != 0;
  if (known && entry->second.serial != serial) return false;
  if (!known && revoked_.size() >= kMostRefused && !revoked_.contains(client_id)) return false;
  Revocation& revocation = revoked_[client_id];
  const bool first = revocation.at == 0;
  revocation = {Shortened(sentence), first ? now_() : revocation.at};
  return first;
}

void ClientRegistry::Failed(const std::string& client_id, const std::string& sentence) {
  MutexLock lock(mutex_);
  if (entries_.contains(client_id)) NoteError(client_id, sentence);
}

ClientState ClientRegistry::StateOf(const std::string& client_id) const {
  ClientState state{.client_id = client_id, .state = "away"};
  if (const auto found = entries_.find(client_id); found != entries_.end()) {
    const Entry& entry = found->second;
    if (entry.expected_by >= now_()) state.state = "connected";
    state.via = entry.via;
    if (entry.aggregator) state.doing = "aggregator";
    state.last_seen_unix_ms = entry.seen;
    state.error = entry.error;
    state.error_unix_ms = entry.error_at;
    state.serial = entry.serial;
    state.valid_until_unix_ms = entry.valid_until;
    state.version = entry.version;
  }
  if (const auto knock = knocks_.find(client_id); knock != knocks_.end()) {
    state.state = "waiting";
    state.detail = knock->second.detail;
    state.last_seen_unix_ms = knock->second.at;
  }
  if (const auto revoked = revoked_.find(client_id); revoked != revoked_.end()) {
    state.state = "revoked";
    state.error = revoked->second.sentence;
    state.error_unix_ms = revoked->second.at;
  }
  if (const auto ban = banned_.find(client_id); ban != banned_.end()) {
    state.state = "banned";
    state.detail = ban->second;
  }
  return state;
}

std::vector<ClientState> ClientRegistry::Clients(const std::string& after, size_t most) const {
  MutexLock lock(mutex_);
  std::set<std::string> names;
  const auto add = [&](const auto& from) {
    size_t taken = 0;
    for (auto it = from.upper_bound(after); it != from.end() && taken < most; ++it, ++taken) names.insert(it->first);
  };
  add(entries_);
  add(banned_);
  add(knocks_);
  add(revoked_);
  std::vector<ClientState> clients;
  for (const std::string& name : names) {
    if (clients.size() >= most) break;
    clients.push_back(StateOf(name));
  }
  return clients;
}

ClientRegistry::Counts ClientRegistry::counts() const {
  MutexLock lock(mutex_);
  Counts counts;
  counts.banned = std::ssize(banned_);
  counts.waiting = std::ssize(knocks_);
  const int64_t now = now_();
  for (const auto& [name, entry] : entries_) {
    if (banned_.contains(name) || entry.aggregator || entry.seen == 0) continue;
    ++(entry.expected_by >= now && !revoked_.contains(name) ? counts.connected : counts.away);
  }
  return counts;
}

int64_t ClientRegistry::first_certificate_end() const {
  MutexLock lock(mutex_);
  int64_t first = 0;
  const int64_t now = now_();
  for (const auto& [name, entry] : entries_) {
    if (entry.valid_until == 0 || entry.expected_by < now) continue;
    if (first == 0 || entry.valid_until < first) first = entry.valid_until;
  }
  return first;
}

}  // namespace rivulet
