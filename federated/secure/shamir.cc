#include "federated/secure/shamir.h"

#include <openssl/crypto.h>

#include "engine/base/check.h"

namespace rivulet::secure {
namespace {

std::span<const uint8_t, kFieldBytes> Half(std::span<const uint8_t> bytes, size_t half) {
  return bytes.subspan(half * kFieldBytes).first<kFieldBytes>();
}

std::span<uint8_t, kFieldBytes> Half(std::span<uint8_t> bytes, size_t half) {
  return bytes.subspan(half * kFieldBytes).first<kFieldBytes>();
}

}  // namespace

FieldElement ValueAt(std::span<const FieldElement> coefficients, uint32_t x) {
  const FieldElement at{0, x};
  FieldElement value;
  for (size_t i = coefficients.size(); i-- > 0;) value = value * at + coefficients[i];
  return value;
}

StatusOr<SecretBytes> ShareSecret(std::span<const uint8_t, kSecretBytes> secret, int threshold,
                                  std::span<const uint32_t> holders) {
  RIVULET_CHECK(threshold >= 1, "a threshold of {}", threshold);
  const auto terms = static_cast<size_t>(threshold);
  SecretBytes shares(holders.size() * kShareBytes);
  // Coefficients are secrets as the constant is: they lie in the same memory, as elements.
  RIVULET_ASSIGN_OR_RETURN(SecretBytes memory, SecretBytes::Random(terms * sizeof(FieldElement)));
  for (size_t half = 0; half < 2; ++half) {
    if (half == 1) {
      RIVULET_ASSIGN_OR_RETURN(memory, SecretBytes::Random(terms * sizeof(FieldElement)));
    }
    const std::span<FieldElement> coefficients(reinterpret_cast<FieldElement*>(memory.data()), terms);
    coefficients[0] = ElementOf(Half(secret, half));
    for (size_t i = 0; i < holders.size(); ++i) {
      RIVULET_CHECK(holders[i] != 0, "the holder 0 would get the secret itself");
      WriteElement(ValueAt(coefficients, holders[i]), Half(shares.part(i * kShareBytes, kShareBytes), half));
    }
  }
  return shares;
}

Recombination::Recombination(std::vector<uint32_t> holders)
    : holders_(std::move(holders)), weights_(holders_.size(), FieldElement{0, 1}) {
  // The product of x_m / (x_m + x_j) over all others; denominators are inverted together.
  std::vector<FieldElement> below(holders_.size(), FieldElement{0, 1});
  FieldElement all{0, 1};
  for (const uint32_t holder : holders_) all = all * FieldElement{0, holder};
  for (size_t j = 0; j < holders_.size(); ++j) {
    below[j] = FieldElement{0, holders_[j]};
    for (size_t m = 0; m < holders_.size(); ++m) {
      if (m != j) below[j] = below[j] * FieldElement{0, holders_[m] ^ holders_[j]};
    }
  }
  InvertAll(below);
  for (size_t j = 0; j < holders_.size(); ++j) weights_[j] = all * below[j];
}

SecretBytes Recombination::Secret(std::span<const std::span<const uint8_t>> shares) const {
  RIVULET_CHECK(shares.size() == holders_.size(), "{} shares of {} holders", shares.size(), holders_.size());
  SecretBytes secret(kSecretBytes);
  for (size_t half = 0; half < 2; ++half) {
    FieldElement sum;
    for (size_t j = 0; j < shares.size(); ++j) sum += weights_[j] * ElementOf(Half(shares[j], half));
    WriteElement(sum, Half(secret.span(), half));
  }
  return secret;
}

}  // namespace rivulet::secure
