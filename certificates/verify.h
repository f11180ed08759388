// Verification of a certificate: the peer's at a handshake, and the node's own at the start.
#pragma once

#include <string_view>

#include "certificates/certificate.h"
#include "certificates/revocation_list.h"

namespace rivulet {

enum class CertificatePurpose { kConnect, kServe };  // what the bearer of the certificate does

// Facts (engine/base/error_facts.h) of a refusal because the certificate is revoked: its serial and "client/ID". Only
// of one that the authority has signed: anybody may write a serial into a certificate of their own.
inline constexpr std::string_view kRevokedFact = "revoked", kRevokedNameFact = "revoked name";

// OK: signed by `authority`, good at `now`, made for `purpose`, with a name of this system, and not in `revoked` (null:
// nothing is). FAILED_PRECONDITION says which of these it is not, and the mend. UNAUTHENTICATED is left to the caller.
Status VerifyCertificate(const Certificate& certificate, const Certificate& authority, const RevocationList* revoked,
                         CertificatePurpose purpose, int64_t now);

// OK: `certificate` names `host`, a DNS name or an address, among those under which it serves. FAILED_PRECONDITION.
Status VerifyHost(const Certificate& certificate, std::string_view host);

}  // namespace rivulet
