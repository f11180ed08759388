#include "federated/secure/key_agreement.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <utility>

namespace rivulet::secure {
namespace {

using KeyContext = OpenSslHandle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;

}  // namespace

StatusOr<AgreementKey> AgreementKey::Of(KeyHandle key) {
  if (key == nullptr) return OpenSslError("make a key of X25519");
  AgreementKey made(std::move(key));
  size_t size = kPublicKeyBytes;
  if (EVP_PKEY_get_raw_public_key(made.key_.get(), made.public_key_.data(), &size) != 1 || size != kPublicKeyBytes) {
    return OpenSslError("read a public key of X25519");
  }
  return made;
}

StatusOr<AgreementKey> AgreementKey::Generate() {
  EnableSecureHeap();
  return Of(KeyHandle(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")));
}

StatusOr<AgreementKey> AgreementKey::FromPrivate(std::span<const uint8_t, 32> bytes) {
  EnableSecureHeap();
  return Of(KeyHandle(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes.data(), bytes.size())));
}

StatusOr<SecretBytes> AgreementKey::PrivateBytes() const {
  SecretBytes bytes(32);
  size_t size = bytes.size();
  if (EVP_PKEY_get_raw_private_key(key_.get(), bytes.data(), &size) != 1 || size != bytes.size()) {
    return OpenSslError("read a private key of X25519");
  }
  return bytes;
}

StatusOr<SecretBytes> AgreementKey::Agree(const PublicKey& peer) const {
  const KeyHandle other(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, peer.data(), peer.size()));
  const KeyContext context(EVP_PKEY_CTX_new(key_.get(), nullptr));
  if (other == nullptr || context == nullptr || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer_ex(context.get(), other.get(), 0) != 1) {
    return OpenSslError("agree on a key by X25519");
  }
  SecretBytes secret(32);
  size_t size = secret.size();
  const bool agreed = EVP_PKEY_derive(context.get(), secret.data(), &size) == 1 && size == secret.size();
  ERR_clear_error();
  // OpenSSL refuses a secret of zeros; other builds of it may not.
  const SecretBytes zeros(32);
  if (!agreed || EqualSecrets(secret.span(), zeros.span())) {
    return InvalidArgument("a public key of X25519 has a low order, so its shared secret is public");
  }
  return secret;
}

}  // namespace rivulet::secure
