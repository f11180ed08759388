#include "cli/run/proxy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace rivulet {
namespace {

// Lower case first, as in curl.
std::string_view FirstOf(const std::array<const char*, 2>& names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

bool SameLetters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// "example.org" and ".example.org" match the host and all its subdomains.
bool Names(std::string_view entry, std::string_view host) {
  if (entry == "*") return true;
  if (entry.starts_with('.')) entry.remove_prefix(1);
  if (entry.empty() || entry.size() > host.size()) return false;
  return SameLetters(host.substr(host.size() - entry.size()), entry) &&
         (host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.');
}

}  // namespace

StatusOr<std::string> ProxyFor(const NetworkAddress& address) {
  const std::string_view proxy = FirstOf({"https_proxy", "HTTPS_PROXY"});
  if (proxy.empty() || address.IsLoopback()) return std::string();
  std::string_view direct = FirstOf({"no_proxy", "NO_PROXY"});
  while (!direct.empty()) {
    const size_t end = std::min(direct.find(','), direct.size());
    std::string_view entry = direct.substr(0, end);
    direct.remove_prefix(std::min(end + 1, direct.size()));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (Names(entry, address.host)) return std::string();
  }
  constexpr std::string_view kScheme = "http://";
  std::string_view host = proxy;
  if (host.starts_with(kScheme)) host.remove_prefix(kScheme.size());
  while (host.ends_with('/')) host.remove_suffix(1);
  const std::string_view port = host.substr(host.rfind('@') == std::string_view::npos ? 0 : host.rfind('@') + 1);
  if (!ParseAddress(port).ok()) {  // the password, if any, is not repeated
    return InvalidArgument("https_proxy names '{}', and a proxy is http://HOST:PORT or http://USER:PASSWORD@HOST:PORT",
                           port.substr(0, 80));
  }
  return std::string(kScheme) + std::string(host);
}

}  // namespace rivulet
