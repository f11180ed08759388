#include "http/same_origin.h"

#include <fmt/format.h>

namespace rivulet {
namespace {

std::string Escaped(std::string_view text, std::string_view also) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string escaped;
  for (const char c : text) {
    if (kPlain.find(c) != kPlain.npos || also.find(c) != also.npos) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace

std::string SameOriginLocation(std::string_view path, const std::multimap<std::string, std::string>& query) {
  std::string location = path.starts_with('/') && !path.starts_with("//") ? Escaped(path, "/") : "/";
  char before = '?';
  for (const auto& [name, value] : query) {
    location += fmt::format("{}{}={}", before, Escaped(name, ""), Escaped(value, ""));
    before = '&';
  }
  return location;
}

}  // namespace rivulet
