#include "http/page_policy.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "engine/base/sha256.h"

namespace rivulet {
namespace {

// 'sha256-…' (Content Security Policy Level 3, 2.3.1), of an element with this text.
std::string SourceOf(std::string_view text) {
  if (text.empty()) return "'none'";
  const Digest digest = Sha256Of(text);
  std::string base64(4 * ((digest.bytes.size() + 2) / 3) + 1, '\0');  // and a NUL that the library writes
  base64.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                                                    reinterpret_cast<const unsigned char*>(digest.bytes.data()),
                                                    static_cast<int>(digest.bytes.size()))));
  return fmt::format("'sha256-{}'", base64);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> HeadersOfPages(std::string_view style, std::string_view script) {
  return {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src 'self'; form-action "
                   "'self'; base-uri 'none'; frame-ancestors 'none'",
                   SourceOf(style), SourceOf(script))},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"}};
}

}  // namespace rivulet
