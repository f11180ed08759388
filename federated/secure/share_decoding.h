// Recovery of secrets from shares of which some are wrong. The true secret is known by its digest or public key, so any
// `threshold` shares whose secret matches are right. All shares off their polynomials are then known to be wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "federated/secure/shamir.h"

namespace rivulet::secure {

struct HeldShare {
  uint32_t holder = 0;             // its number, from 1
  std::span<const uint8_t> share;  // kShareBytes
};

struct DecodedSecret {
  SecretBytes secret;
  std::vector<uint32_t> wrong;  // holders whose share is another, ascending
};

// nullopt: no subset that was tried fits. Up to (shares - threshold) / 2 wrong shares are always found (Gao's decoder
// of Reed-Solomon codes). More are found where there are at most kMostSubsets ways to leave out shares, since all are
// tried. `shares`: at least `threshold`, of distinct holders. Time is that of shares^2 products, and of the subsets.
inline constexpr int kMostSubsets = 4096;
std::optional<DecodedSecret> DecodeSecret(std::span<const HeldShare> shares, int threshold,
                                          const std::function<bool(std::span<const uint8_t, kSecretBytes>)>& fits);

}  // namespace rivulet::secure
