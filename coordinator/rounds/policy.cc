#include "coordinator/rounds/policy.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr int64_t kSiteForgottenMs = 60'000;

}  // namespace

void Presence::Begin(TimeMs now) {
  if (!began_) began_ = now;
}

void Presence::Saw(const std::string& client_id, TimeMs now) {
  if (presence_ms_ == 0) return;
  Forget(client_id);
  seen_.emplace(client_id, now);
  by_time_.emplace(now, client_id);
}

void Presence::Lost(const std::string& client_id) {
  if (presence_ms_ == 0) return;
  Forget(client_id);
  lost_.insert(client_id);
}

void Presence::Forget(const std::string& client_id) {
  lost_.erase(client_id);
  const auto found = seen_.find(client_id);
  if (found == seen_.end()) return;
  by_time_.erase({found->second, client_id});
  seen_.erase(found);
}

void Presence::SawSite(const std::string& site, TimeMs now) {
  if (sites_.insert_or_assign(site, now).second) lost_.clear();
  newest_site_ = std::max(newest_site_, now);
  std::erase_if(sites_, [now](const auto& entry) { return now - entry.second > kSiteForgottenMs; });
}

bool Presence::EverybodyIsPresent(TimeMs now) const {
  return presence_ms_ == 0 || (began_ && now - *began_ < presence_ms_) ||
         (!sites_.empty() && now - newest_site_ < presence_ms_);
}

bool Presence::IsPresent(const std::string& client_id, TimeMs now) const {
  if (lost_.contains(client_id)) return false;
  if (EverybodyIsPresent(now)) return true;
  const auto found = seen_.find(client_id);
  return found != seen_.end() && now - found->second < presence_ms_;
}

// Absent names are removed here, so a waiting run may count at every poll.
int64_t Presence::CountPresent(int64_t members, TimeMs now) {
  if (EverybodyIsPresent(now)) return members - static_cast<int64_t>(lost_.size());
  while (!by_time_.empty() && now - by_time_.begin()->first >= presence_ms_) {
    seen_.erase(by_time_.begin()->second);
    by_time_.erase(by_time_.begin());
  }
  return std::min(members, static_cast<int64_t>(by_time_.size()));
}

int64_t Retry::PauseAfter(int64_t attempts) const {
  int64_t pause = first_pause_ms;
  for (int64_t i = 1; i < attempts && pause < longest_pause_ms; ++i) pause *= 2;
  return std::min(pause, longest_pause_ms);
}

void ExcludedClients::Add(const std::string& client_id) {
  if (names_.insert(client_id).second) in_order_.push_back(client_id);
}

void ExcludedClients::ForgiveUntil(int64_t members, int64_t wanted) {
  const int64_t too_many = std::clamp<int64_t>(wanted - (members - static_cast<int64_t>(in_order_.size())), 0,
                                               static_cast<int64_t>(in_order_.size()));
  for (int64_t i = 0; i < too_many; ++i) names_.erase(in_order_[static_cast<size_t>(i)]);
  in_order_.erase(in_order_.begin(), in_order_.begin() + too_many);
}

int64_t PollIntervals::WaitFor(int64_t waiting) { return std::clamp<int64_t>(waiting, 20, 10'000); }

int64_t PollIntervals::Heartbeat(int64_t sites, int64_t lease_ms) {
  const int64_t pace = std::clamp<int64_t>(sites, 1000, 10'000);
  return lease_ms > 0 ? std::clamp<int64_t>(lease_ms / 3, 1, pace) : pace;
}

int64_t PollIntervals::FairShare(int64_t want, int64_t offered, int64_t sites) {
  return std::min(want, std::max<int64_t>(offered / (2 * sites), 1));
}

}  // namespace rivulet
