#include "federated/secure/protocol.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/check.h"
#include "engine/base/nearest.h"

namespace rivulet::secure {
namespace {

// Made at first use and never destroyed.
std::map<std::string, SecureProtocol, std::less<>>& Protocols() {
  static auto* const protocols = new std::map<std::string, SecureProtocol, std::less<>>;
  return *protocols;
}

Status CheckAtLeast(std::string_view key, int64_t value, int64_t asked) {
  if (value >= asked) return absl::OkStatus();
  return FailedPrecondition("the plan's privacy.{} is {} and this site's policy asks for {} or more", key, value,
                            asked);
}

}  // namespace

SecureSettings SettingsOf(const SecureSum& sum, int word_bits) {
  return {.min_cohort = sum.min_cohort,
          .min_survivors = sum.min_survivors,
          .max_colluding = sum.max_colluding,
          .drop_out = sum.drop_out,
          .least_sum = sum.least_sum,
          .word_bits = word_bits};
}

GraphNeeds NeedsOf(const SecureSettings& settings, int64_t members) {
  return {.members = members,
          .colluding = std::min(settings.max_colluding, members),
          .dropped = static_cast<int64_t>(std::floor(settings.drop_out * static_cast<double>(members))),
          .least_sum = settings.least_sum};
}

Status CheckPolicy(const SecureSettings& settings, const SecurePolicy& policy) {
  RIVULET_RETURN_IF_ERROR(CheckAtLeast("min_cohort", settings.min_cohort, policy.min_cohort));
  RIVULET_RETURN_IF_ERROR(CheckAtLeast("min_survivors", settings.min_survivors, policy.min_survivors));
  RIVULET_RETURN_IF_ERROR(CheckAtLeast("max_colluding", settings.max_colluding, policy.max_colluding));
  return CheckAtLeast("least_sum", settings.least_sum, policy.least_sum);
}

StatusOr<const SecureProtocol*> FindSecureProtocol(std::string_view name) {
  const auto found = Protocols().find(name);
  if (found != Protocols().end()) return &found->second;
  return NotFound("there is no secure aggregation '{}'.{}", name, DidYouMean(name, SecureProtocolNames()));
}

std::vector<std::string> SecureProtocolNames() {
  std::vector<std::string> names;
  for (const auto& [name, protocol] : Protocols()) names.push_back(name);
  return names;
}

SecureProtocolRegistration::SecureProtocolRegistration(const SecureProtocol& protocol) {
  const bool is_new = Protocols().emplace(protocol.name, protocol).second;
  RIVULET_CHECK(is_new, "two secure aggregations have the name '{}'", protocol.name);
}

}  // namespace rivulet::secure
