#include "certificates/signature.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include "certificates/key.h"

namespace rivulet {
namespace {

using SignatureContext = OpenSslHandle<EVP_MD_CTX, EVP_MD_CTX_free>;

const uint8_t* TextBytes(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

}  // namespace

Status CheckSigningKey(EVP_PKEY* key, std::string_view where) {
  if (key != nullptr && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && KeyText(key) == "EC P-256") return absl::OkStatus();
  return FailedPrecondition(
      "the key of '{}' is {} and what a node signs beside TLS it signs by EC P-256; have a certificate issued with a "
      "key of that "
      "kind",
      where, key == nullptr ? "missing" : KeyText(key));
}

StatusOr<std::string> SignBytes(EVP_PKEY* key, std::string_view bytes) {
  const SignatureContext context(EVP_MD_CTX_new());
  std::string signature(kMostSignatureBytes, '\0');
  size_t size = signature.size();
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<uint8_t*>(signature.data()), &size, TextBytes(bytes),
                     bytes.size()) != 1) {
    return OpenSslError("sign");
  }
  signature.resize(size);
  return signature;
}

bool IsSignature(EVP_PKEY* key, std::string_view bytes, std::string_view signature) {
  if (signature.empty() || signature.size() > kMostSignatureBytes) return false;
  const SignatureContext context(EVP_MD_CTX_new());
  const bool good =
      context != nullptr && EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), TextBytes(signature), signature.size(), TextBytes(bytes), bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace rivulet
