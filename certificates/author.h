// Authors of plans and their signatures: Ed25519 (RFC 8032) over a plan's bytes. The key is made on the machine where
// plans are written, and never stored on one that serves or trains. So an attacker in control of a coordinator cannot
// make sites run another plan.
//
// The public key identifies the author, and is short enough to be read out: "ed25519:" and 32 bytes in base64.
#pragma once

#include <string>
#include <string_view>

#include "certificates/openssl.h"

namespace rivulet {

inline constexpr size_t kAuthorBytes = 32, kSignatureBytes = 64;

StatusOr<KeyHandle> MakeAuthorKey();
// The kAuthorBytes of the public key. INVALID_ARGUMENT, naming `where`: `key` is no Ed25519 key.
StatusOr<std::string> AuthorOf(EVP_PKEY* key, std::string_view where);
// A signature of kSignatureBytes. `key` is an author's.
StatusOr<std::string> Sign(EVP_PKEY* key, std::string_view bytes);
// Whether `signature` is `author`'s over `bytes`; false too if `author` or `signature` is malformed.
bool IsSignedBy(std::string_view author, std::string_view bytes, std::string_view signature);

std::string AuthorText(std::string_view author);
// The author of AuthorText's text. INVALID_ARGUMENT: any other text.
StatusOr<std::string> ParseAuthor(std::string_view text);

}  // namespace rivulet
