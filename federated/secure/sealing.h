// AES-256-GCM (SP 800-38D). A key of this protocol seals one message only, so its nonce is 12 zeros.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "federated/secure/secret.h"

namespace rivulet::secure {

inline constexpr size_t kSealKeyBytes = 32, kNonceBytes = 12, kTagBytes = 16;
using Nonce = std::array<uint8_t, kNonceBytes>;

// The ciphertext with the tag behind it.
StatusOr<std::string> Seal(std::span<const uint8_t, kSealKeyBytes> key, std::string_view associated,
                           std::span<const uint8_t> plain, const Nonce& nonce = {});
// INVALID_ARGUMENT: it was not sealed by this key with this associated data, or was changed; nothing of it is returned.
StatusOr<SecretBytes> Unseal(std::span<const uint8_t, kSealKeyBytes> key, std::string_view associated,
                             std::string_view sealed, const Nonce& nonce = {});

}  // namespace rivulet::secure
