// Verification of a certificate: the peer's at a handshake, and the node's own at the start.
#pragma once

#include <string_view>

#include "certificates/certificate.h"
#include "certificates/revocation_list.h"

namespace rivulet {

enum class CertificatePurpose { kConnect, kServe };  // the certificate's owner connects, or serves

// Facts (engine/base/error_facts.h) of a refusal because the certificate is revoked: its serial and "client/ID". Only
// for certificates signed by the authority, because anyone may write a serial into a self-made certificate.
inline constexpr std::string_view kRevokedFact = "revoked", kRevokedNameFact = "revoked name";

// OK: signed by `authority`, valid at `now`, made for `purpose`, with a name of this system, and not in `revoked`
// (null: none is). FAILED_PRECONDITION names the failed check and the remedy. Callers may map it to UNAUTHENTICATED.
Status VerifyCertificate(const Certificate& certificate, const Certificate& authority, const RevocationList* revoked,
                         CertificatePurpose purpose, int64_t now);

// OK: `certificate` lists `host`, a DNS name or an address, among its hosts. FAILED_PRECONDITION: it does not.
Status VerifyHost(const Certificate& certificate, std::string_view host);

}  // namespace rivulet
