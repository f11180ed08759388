#include "certificates/author.h"

#include <openssl/err.h>

#include "certificates/base64.h"

namespace rivulet {
namespace {

constexpr std::string_view kKind = "ed25519:";
using DigestHandle = OpenSslHandle<EVP_MD_CTX, EVP_MD_CTX_free>;

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

StatusOr<KeyHandle> MakeAuthorKey() {
  KeyHandle key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (key == nullptr) return OpenSslError("make a key");
  return key;
}

StatusOr<std::string> AuthorOf(EVP_PKEY* key, std::string_view where) {
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519)
    return InvalidArgument("'{}' is no author's key, which is of Ed25519; 'rivulet ca author' makes one", where);
  std::string author(kAuthorBytes, '\0');
  size_t size = author.size();
  if (EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(author.data()), &size) != 1 ||
      size != kAuthorBytes)
    return OpenSslError("read a public key");
  return author;
}

StatusOr<std::string> Sign(EVP_PKEY* key, std::string_view bytes) {
  const DigestHandle context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  // Ed25519 has its own hash: no digest is named, and all bytes are given at once.
  if (context == nullptr || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, Bytes(bytes),
                     bytes.size()) != 1 ||
      size != kSignatureBytes)
    return OpenSslError("sign");
  return signature;
}

bool IsSignedBy(std::string_view author, std::string_view bytes, std::string_view signature) {
  if (author.size() != kAuthorBytes || signature.size() != kSignatureBytes) return false;
  const KeyHandle key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(author), author.size()));
  const DigestHandle context(EVP_MD_CTX_new());
  const bool good =
      key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(bytes), bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

std::string AuthorText(std::string_view author) { return std::string(kKind) + EncodeBase64(author); }

StatusOr<std::string> ParseAuthor(std::string_view text) {
  const auto refuse = [&] {
    return InvalidArgument("'{}' is no author; give 'ed25519:' and 44 characters, as 'rivulet ca author' prints",
                           text.substr(0, 80));
  };
  if (!text.starts_with(kKind)) return refuse();
  StatusOr<std::string> author = DecodeBase64(text.substr(kKind.size()));
  if (!author.ok() || author->size() != kAuthorBytes) return refuse();
  return author;
}

}  // namespace rivulet
