// Content and signing of this system's certificates. The profile is RFC 5280's: version 3, random serial numbers of 128
// bits, one authority without others below it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "certificates/certificate.h"

namespace rivulet {

// What an authority vouches for.
struct Subject {
  CertificateName name;
  std::vector<std::string> hosts;  // under which others connect to it; only of a role that serves
};

// INVALID_ARGUMENT: a role that serves without a host, another with one, or a host that CheckHost refuses.
Status CheckSubject(const Subject& subject);

// The extension with its URI and its hosts.
StatusOr<ExtensionHandle> AlternativeNames(const Subject& subject);
// Its common name: the id, cut to the 64 characters that X.520 allows. For people; nothing reads it as a name.
Status SetCommonName(X509_NAME* name, std::string_view id);

// An authority's own certificate, signed by itself. One that is renewed keeps subject and key, so that what it signed
// before stays good.
StatusOr<Certificate> SignAuthority(std::string_view authority_name, EVP_PKEY* key, Validity validity);

// A certificate of `public_key`: for signing in TLS alone, as a client, as a server or as both, as its role asks.
StatusOr<Certificate> SignSubject(const Subject& subject, EVP_PKEY* public_key, Validity validity,
                                  const Certificate& authority, EVP_PKEY* authority_key);

}  // namespace rivulet
