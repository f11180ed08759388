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

int64_t Pace::WaitFor(int64_t waiting) { return std::clamp<int64_t>(waiting, 20, 10'000); }

int64_t Pace::FairShare(int64_t want, int64_t offered, int64_t sites) {
  return std::min(want, std::max<int64_t>(offered / (2 * sites), 1));
}

}  // namespace rivulet
