#include "federated/secure/key_derivation.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <array>

#include "certificates/openssl.h"

namespace rivulet::secure {
namespace {

using DerivationContext = OpenSslHandle<EVP_KDF_CTX, EVP_KDF_CTX_free>;
using Derivation = OpenSslHandle<EVP_KDF, EVP_KDF_free>;

}  // namespace

StatusOr<SecretBytes> DeriveKey(std::span<const uint8_t> secret, std::string_view info, size_t size,
                                std::span<const uint8_t> salt) {
  static const Derivation derivation(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const DerivationContext context(derivation ? EVP_KDF_CTX_new(derivation.get()) : nullptr);
  if (context == nullptr) return OpenSslError("find HKDF");
  char digest[] = "SHA256";
  // OpenSSL's parameters are not const, and it does not write to these.
  const auto bytes = [](const auto& span) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(span.data()));
  };
  std::array<OSSL_PARAM, 5> parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes(secret), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bytes(info), info.size()),
      salt.empty() ? OSSL_PARAM_construct_end()
                   : OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, bytes(salt), salt.size()),
      OSSL_PARAM_construct_end()};
  SecretBytes key(size);
  if (EVP_KDF_derive(context.get(), key.data(), key.size(), parameters.data()) != 1)
    return OpenSslError("derive a key");
  return key;
}

}  // namespace rivulet::secure
