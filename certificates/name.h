// Subject of a certificate: a role and a name. The certificate contains them as one URI, "rivulet:client/ward%207",
// which a renewal keeps. No other field counts as a name.
#pragma once

#include <string>
#include <string_view>

#include "certificates/role.h"
#include "engine/base/status.h"

namespace rivulet {

struct CertificateName {
  Role role = Role::kClient;
  std::string id;

  bool operator==(const CertificateName&) const = default;
  std::string ToString() const;  // "client/ward 7"
  std::string Uri() const;       // "rivulet:client/ward%207"
  std::string FileName() const;  // "client-ward%207": one component of a path
};

// The name of ToString's text. INVALID_ARGUMENT: no such role, an id that CheckDisplayName refuses, as for all clients'
// names, or a coordinator's id that is no host (CheckHost).
StatusOr<CertificateName> ParseCertificateName(std::string_view text);
// The name of a URI, exactly as Uri() writes it, or with a role's former name. INVALID_ARGUMENT: any other text.
StatusOr<CertificateName> NameOfUri(std::string_view uri);

// INVALID_ARGUMENT unless `host` is an IPv4 or IPv6 address (without brackets) or a DNS name without wildcards.
Status CheckHost(std::string_view host);
bool IsAddress(std::string_view host);

}  // namespace rivulet
