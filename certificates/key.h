// Key pairs. New ones are ECDSA keys on the curve P-256 (secp256r1); docs/guide/certificates.md has the reasons.
#pragma once

#include <string>
#include <string_view>

#include "certificates/openssl.h"

namespace rivulet {

StatusOr<KeyHandle> MakeKey();
// PKCS #8, not encrypted: a program that starts unattended cannot ask for a password.
StatusOr<std::string> KeyPem(EVP_PKEY* key);
// Errors name `where`. INVALID_ARGUMENT: no private key, an encrypted one, or one that CheckKey refuses.
StatusOr<KeyHandle> ReadKey(std::string_view pem, std::string_view where);

// INVALID_ARGUMENT unless it can sign in TLS 1.3 with a strength of 112 bits (SP 800-57): P-256, P-384, P-521, Ed25519,
// RSA of 2048 bits or more.
Status CheckKey(EVP_PKEY* key, std::string_view where);
std::string KeyText(EVP_PKEY* key);  // "EC P-256", "RSA 2048", "Ed25519"

// Public keys as the bytes of a SubjectPublicKeyInfo (RFC 5280), in base64.
StatusOr<std::string> PublicKeyText(EVP_PKEY* key);
StatusOr<KeyHandle> PublicKeyOf(std::string_view text);
// Whether both public keys have the same private key, in any encoding: a curve's point may be compressed, and an RSA
// key of the same modulus may have another exponent.
bool SameKeyPair(EVP_PKEY* a, EVP_PKEY* b);

}  // namespace rivulet
