// ECDSA on P-256 with SHA-256 (FIPS 186-4), by the keys of certificates. Signatures are DER, 8 to 72 bytes.
#pragma once

#include <string>
#include <string_view>

#include "certificates/openssl.h"

namespace rivulet {

inline constexpr size_t kMostSignatureBytes = 72;

// FAILED_PRECONDITION unless `key`, public or private, is of P-256; `where` is named.
Status CheckSigningKey(EVP_PKEY* key, std::string_view where);
StatusOr<std::string> SignBytes(EVP_PKEY* key, std::string_view bytes);
// Whether `signature` is by the private key of `key` over `bytes`; false too for whatever is no signature.
bool IsSignature(EVP_PKEY* key, std::string_view bytes, std::string_view signature);

}  // namespace rivulet
