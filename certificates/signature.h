// ECDSA on P-256 with SHA-256 (FIPS 186-4), by the keys of certificates. Signatures are DER, 8 to 72 bytes.
#pragma once

#include <string>
#include <string_view>

#include "certificates/openssl.h"

namespace rivulet {

inline constexpr size_t kMostSignatureBytes = 72;

// FAILED_PRECONDITION, which names `where`: `key`, public or private, is not a key on P-256.
Status CheckSigningKey(EVP_PKEY* key, std::string_view where);
StatusOr<std::string> SignBytes(EVP_PKEY* key, std::string_view bytes);
// Whether `signature` was made over `bytes` with the private key of `key`. False too if it is not a signature at all.
bool IsSignature(EVP_PKEY* key, std::string_view bytes, std::string_view signature);

}  // namespace rivulet
