#include "federated/secure/secret_recovery.h"

#include <algorithm>
#include <map>
#include <set>

namespace rivulet::secure {

std::optional<SecretBytes> SecretRecovery::Recover(uint32_t owner, std::span<const HeldShare> shares,
                                                   const Fits& fits) {
  const auto first = shares.first(static_cast<size_t>(threshold_));
  std::vector<uint32_t> holders;
  std::vector<std::span<const uint8_t>> bytes;
  for (const HeldShare& share : first) {
    holders.push_back(share.holder);
    bytes.push_back(share.share);
  }
  if (!last_ || last_->holders() != holders) last_.emplace(std::move(holders));
  SecretBytes secret = last_->Secret(bytes);
  if (fits(secret.span().first<kSecretBytes>())) return secret;
  std::optional<DecodedSecret> decoded = DecodeSecret(shares, threshold_, fits);
  if (!decoded) {
    lost_.push_back(owner);
    return std::nullopt;
  }
  for (const uint32_t holder : decoded->wrong) bad_.emplace_back(owner, holder - 1);
  return std::move(decoded->secret);
}

std::vector<uint32_t> SecretRecovery::Blamed(std::vector<std::pair<uint32_t, uint32_t>>* unclear) const {
  std::map<uint32_t, int> as_owner, as_holder;
  for (const auto& [owner, holder] : bad_) {
    ++as_owner[owner];
    ++as_holder[holder];
  }
  std::set<uint32_t> blamed;
  for (const auto& [owner, holder] : bad_) {
    if (as_owner[owner] > as_holder[holder]) blamed.insert(owner);
    if (as_owner[owner] < as_holder[holder]) blamed.insert(holder);
  }
  for (const auto& pair : bad_) {
    if (!blamed.contains(pair.first) && !blamed.contains(pair.second)) unclear->push_back(pair);
  }
  return {blamed.begin(), blamed.end()};
}

}  // namespace rivulet::secure
