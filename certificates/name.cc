#include "certificates/name.h"

#include <arpa/inet.h>

#include <array>

#include "engine/base/display_name.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

constexpr std::string_view kScheme = "rivulet:";

bool Unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

// RFC 3986, section 2.1, with every character encoded that is not unreserved: a certificate's URI is ASCII, and names
// are UTF-8.
std::string Encoded(std::string_view id) {
  std::string text;
  for (const char c : id) {
    if (Unreserved(c)) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string Decoded(std::string_view text) {
  std::string id;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() ? DigitOf(text[i + 1]) : -1, low = high < 0 ? -1 : DigitOf(text[i + 2]);
    if (text[i] == '%' && low >= 0) {
      id += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      id += text[i];
    }
  }
  return id;
}

}  // namespace

std::string CertificateName::ToString() const { return fmt::format("{}/{}", role->name, id); }
std::string CertificateName::Uri() const { return fmt::format("{}{}/{}", kScheme, role->name, Encoded(id)); }
std::string CertificateName::FileName() const { return fmt::format("{}-{}", role->name, Encoded(id)); }

StatusOr<CertificateName> ParseCertificateName(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos)
    return InvalidArgument("'{}' is not a name; write {}", DisplayText(text, 80), RoleNamesHelp());
  CertificateName name{.id = std::string(text.substr(slash + 1))};
  const std::string_view word = text.substr(0, slash);
  std::vector<std::string> known;
  for (const Role role : Roles()) {
    known.emplace_back(role->name);
    if (word != role->name && (word.empty() || word != role->formerly)) continue;
    name.role = role;
    RIVULET_RETURN_IF_ERROR(CheckDisplayName(fmt::format("the name of {}", role->text), name.id));
    if (role->named_by_host) RIVULET_RETURN_IF_ERROR(CheckHost(name.id));
    return name;
  }
  const std::string role = DisplayText(word, 80);
  return InvalidArgument("'{}' is no role; there are {}.{}", role, Join(known, ", "), DidYouMean(role, known));
}

StatusOr<CertificateName> NameOfUri(std::string_view uri) {
  if (uri.starts_with(kScheme)) {
    StatusOr<CertificateName> name = ParseCertificateName(Decoded(uri.substr(kScheme.size())));
    const auto spelled = [&](std::string_view role) {
      return fmt::format("{}{}/{}", kScheme, role, Encoded(name->id)) == uri;
    };
    if (name.ok() && (spelled(name->role->name) || spelled(name->role->formerly))) return name;
  }
  return InvalidArgument("'{}' is not a name as certificates of rivulet have it (rivulet:client/ID)",
                         DisplayText(uri, 80));
}

bool IsAddress(std::string_view host) {
  if (host.find('\0') != std::string_view::npos) return false;  // the system would stop reading there
  std::array<unsigned char, 16> bytes;
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

Status CheckHost(std::string_view host) {
  if (IsAddress(host)) return absl::OkStatus();
  // A label is letters, digits and inner hyphens, at most 63 (RFC 1123, section 2.1). Underscores occur in names that
  // container systems generate.
  bool good = !host.empty() && host.size() <= 253;
  for (size_t begin = 0; good && begin <= host.size();) {
    const size_t end = std::min(host.find('.', begin), host.size());
    const std::string_view label = host.substr(begin, end - begin);
    good = !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-';
    for (const char c : label) good = good && Unreserved(c) && c != '~';
    begin = end + 1;
  }
  // A malformed address would count as a name that can never be resolved.
  if (good && host.find_first_not_of("0123456789.") != std::string_view::npos) return absl::OkStatus();
  return InvalidArgument("'{}' is not a host; give a DNS name without wildcards or an IP address without brackets",
                         DisplayText(host, 80));
}

}  // namespace rivulet
