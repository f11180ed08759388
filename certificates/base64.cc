#include "certificates/base64.h"

#include <openssl/err.h>
#include <openssl/evp.h>

namespace rivulet {

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero
  text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                  reinterpret_cast<const unsigned char*>(bytes.data()),
                                                  static_cast<int>(bytes.size()))));
  return text;
}

StatusOr<std::string> DecodeBase64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  ERR_clear_error();
  // The decoder counts the padding as bytes.
  const int padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (size >= padding) bytes.resize(static_cast<size_t>(size - padding));
  if (size < padding || EncodeBase64(bytes) != text) return InvalidArgument("'{}' is no base64", text.substr(0, 80));
  return bytes;
}

}  // namespace rivulet
