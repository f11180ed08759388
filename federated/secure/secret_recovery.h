// Secrets that the coordinator recovers at the last step: seeds of survivors and mask keys of the others. They are
// recovered from shares, and each is checked against its owner's announcement. An invalid share is recorded with its
// owner and its holder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "federated/secure/share_decoding.h"

namespace rivulet::secure {

// Not thread-safe.
class SecretRecovery {
 public:
  explicit SecretRecovery(int threshold) : threshold_(threshold) {}

  // The secret of `owner`. `shares`: at least the threshold, by ascending holders. nullopt: no subset that was tried
  // fits, and `owner` is noted as lost.
  using Fits = std::function<bool(std::span<const uint8_t, kSecretBytes>)>;
  std::optional<SecretBytes> Recover(uint32_t owner, std::span<const HeldShare> shares, const Fits& fits);

  // Owner and holder, by number from 0, of each share that did not fit.
  const std::vector<std::pair<uint32_t, uint32_t>>& bad() const { return bad_; }
  const std::vector<uint32_t>& lost() const { return lost_; }
  // Who answered badly: of an owner and a holder the one that is in more bad pairs than the other. `unclear` are the
  // pairs where neither is.
  std::vector<uint32_t> Blamed(std::vector<std::pair<uint32_t, uint32_t>>* unclear) const;

 private:
  const int threshold_;
  std::optional<Recombination> last_;  // in a complete graph all secrets come from the same holders
  std::vector<std::pair<uint32_t, uint32_t>> bad_;
  std::vector<uint32_t> lost_;
};

}  // namespace rivulet::secure
