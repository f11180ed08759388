#include "federated/secure/sealing.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include "certificates/openssl.h"

namespace rivulet::secure {
namespace {

using SealContext = OpenSslHandle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

const uint8_t* BytesOf(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

}  // namespace

StatusOr<std::string> Seal(std::span<const uint8_t, kSealKeyBytes> key, std::string_view associated,
                           std::span<const uint8_t> plain, const Nonce& nonce) {
  const SealContext context(EVP_CIPHER_CTX_new());
  std::string sealed(plain.size() + kTagBytes, '\0');
  auto* const to = reinterpret_cast<uint8_t*>(sealed.data());
  int written = 0, end = 0;
  const bool done = context != nullptr &&
                    EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data()) == 1 &&
                    EVP_EncryptUpdate(context.get(), nullptr, &written, BytesOf(associated),
                                      static_cast<int>(associated.size())) == 1 &&
                    EVP_EncryptUpdate(context.get(), to, &written, plain.data(), static_cast<int>(plain.size())) == 1 &&
                    EVP_EncryptFinal_ex(context.get(), to + written, &end) == 1 &&
                    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, to + plain.size()) == 1;
  if (!done) return OpenSslError("seal a message");
  return sealed;
}

StatusOr<SecretBytes> Unseal(std::span<const uint8_t, kSealKeyBytes> key, std::string_view associated,
                             std::string_view sealed, const Nonce& nonce) {
  if (sealed.size() < kTagBytes) return InvalidArgument("a sealed message of {} bytes has no tag", sealed.size());
  const size_t size = sealed.size() - kTagBytes;
  const SealContext context(EVP_CIPHER_CTX_new());
  SecretBytes plain(size);
  std::array<uint8_t, kTagBytes> tag;
  std::copy_n(BytesOf(sealed) + size, kTagBytes, tag.begin());
  uint8_t nothing = 0;
  uint8_t* const to = size == 0 ? &nothing : plain.data();
  int written = 0, end = 0;
  const bool begun = context != nullptr &&
                     EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce.data()) == 1 &&
                     EVP_DecryptUpdate(context.get(), nullptr, &written, BytesOf(associated),
                                       static_cast<int>(associated.size())) == 1 &&
                     EVP_DecryptUpdate(context.get(), to, &written, BytesOf(sealed), static_cast<int>(size)) == 1 &&
                     EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1;
  if (!begun) return OpenSslError("open a sealed message");
  if (EVP_DecryptFinal_ex(context.get(), to + written, &end) != 1) {
    ERR_clear_error();
    return InvalidArgument(
        "a sealed message does not open: it was changed, or is for another recipient, step or round");
  }
  return plain;
}

}  // namespace rivulet::secure
