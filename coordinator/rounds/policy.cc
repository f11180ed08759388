#include "coordinator/rounds/policy.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr int64_t kSiteForgottenMs = 60'000;

}  // namespace

void Presence::Saw(const std::string& site, TimeMs now) {
  seen_[site] = now;
  std::erase_if(seen_, [now](const auto& entry) { return now - entry.second > kSiteForgottenMs; });
}

void SittingOut::Add(const std::string& client_id) {
  if (names_.insert(client_id).second) in_order_.push_back(client_id);
}

void SittingOut::ForgiveUntil(int64_t members, int64_t wanted) {
  const int64_t too_many = std::clamp<int64_t>(wanted - (members - static_cast<int64_t>(in_order_.size())), 0,
                                               static_cast<int64_t>(in_order_.size()));
  for (int64_t i = 0; i < too_many; ++i) names_.erase(in_order_[static_cast<size_t>(i)]);
  in_order_.erase(in_order_.begin(), in_order_.begin() + too_many);
}

int64_t Pace::WaitFor(int64_t waiting) { return std::clamp<int64_t>(waiting, 20, 10'000); }

int64_t Pace::FairShare(int64_t want, int64_t offered, int64_t sites) {
  return std::min(want, std::max<int64_t>(offered / (2 * sites), 1));
}

}  // namespace rivulet
