// X25519 (RFC 7748): key pairs, and the shared secret of two of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "certificates/openssl.h"
#include "federated/secure/secret.h"

namespace rivulet::secure {

inline constexpr size_t kPublicKeyBytes = 32;
using PublicKey = std::array<uint8_t, kPublicKeyBytes>;

// Moves and does not copy. The private key lies in OpenSSL's secure heap while it has room. Thread-safe once made.
class AgreementKey {
 public:
  static StatusOr<AgreementKey> Generate();
  // INTERNAL: OpenSSL refuses.
  static StatusOr<AgreementKey> FromPrivate(std::span<const uint8_t, 32> bytes);

  const PublicKey& public_key() const { return public_key_; }
  StatusOr<SecretBytes> PrivateBytes() const;
  // The shared secret's 32 bytes, not yet a key. INVALID_ARGUMENT: `peer` has a low order, so that the secret would be
  // 0 for whatever private key.
  StatusOr<SecretBytes> Agree(const PublicKey& peer) const;

 private:
  explicit AgreementKey(KeyHandle key) : key_(std::move(key)) {}
  static StatusOr<AgreementKey> Of(KeyHandle key);
  KeyHandle key_;
  PublicKey public_key_{};
};

}  // namespace rivulet::secure
