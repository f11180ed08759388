// Content and signing of this system's certificates. The profile is RFC 5280's: version 3, random serial numbers of 128
// bits, one authority without others below it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "certificates/certificate.h"

namespace rivulet {

// The identity that an authority certifies.
struct Subject {
  CertificateName name;
  std::vector<std::string> hosts;  // under which others connect to it; only for a role that serves
};

// INVALID_ARGUMENT: a role that serves without a host, another with one, or a host that CheckHost refuses.
Status CheckSubject(const Subject& subject);

// The extension with its URI and its hosts.
StatusOr<ExtensionHandle> AlternativeNames(const Subject& subject);
// Sets its common name: the id, cut to the 64 characters that X.520 allows. For people; no code reads it as a name.
Status SetCommonName(X509_NAME* name, std::string_view id);

// An authority's own certificate, signed by itself. A renewed one keeps subject and key, so that earlier signatures
// stay valid.
StatusOr<Certificate> SignAuthority(std::string_view authority_name, EVP_PKEY* key, Validity validity);

// A certificate of `public_key`, only for signing in TLS, as a client, a server or both, as its role requires.
StatusOr<Certificate> SignSubject(const Subject& subject, EVP_PKEY* public_key, Validity validity,
                                  const Certificate& authority, EVP_PKEY* authority_key);

}  // namespace rivulet
