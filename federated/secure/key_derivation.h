// HKDF with SHA-256 (RFC 5869).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "federated/secure/secret.h"

namespace rivulet::secure {

// `size` bytes, at most 8,160. `info` says what they are for. An empty salt is 32 zeros, as the RFC has it.
StatusOr<SecretBytes> DeriveKey(std::span<const uint8_t> secret, std::string_view info, size_t size,
                                std::span<const uint8_t> salt = {});

}  // namespace rivulet::secure
