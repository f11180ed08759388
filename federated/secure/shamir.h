// Shamir's sharing of 256-bit secrets over GF(2^128). A secret is two elements, each the constant coefficient of a
// separate polynomial of degree threshold - 1. A holder's share is the two polynomials' values at the holder's number,
// which is at least 1. Any `threshold` shares give the secret; fewer reveal nothing of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "federated/secure/field.h"
#include "federated/secure/secret.h"

namespace rivulet::secure {

inline constexpr size_t kSecretBytes = 32;
inline constexpr size_t kShareBytes = 32;

// The value of the polynomial with these coefficients, the constant first, at `x`. Constant time in the coefficients.
FieldElement ValueAt(std::span<const FieldElement> coefficients, uint32_t x);

// One share of kShareBytes for each of `holders`, in their order. `holders`: distinct, none 0; `threshold` >= 1.
// INTERNAL: no random bytes.
StatusOr<SecretBytes> ShareSecret(std::span<const uint8_t, kSecretBytes> secret, int threshold,
                                  std::span<const uint32_t> holders);

// Weights by which shares of fixed holders add up to the secret (Lagrange at 0). Holders are distinct and not 0.
class Recombination {
 public:
  explicit Recombination(std::vector<uint32_t> holders);
  const std::vector<uint32_t>& holders() const { return holders_; }
  // `shares`: one for each holder, in their order.
  SecretBytes Secret(std::span<const std::span<const uint8_t>> shares) const;

 private:
  std::vector<uint32_t> holders_;
  std::vector<FieldElement> weights_;
};

}  // namespace rivulet::secure
