// Verification of a member's announced keys: its certificate is from the authority, has its name and signed the keys.
// Both halves verify: the coordinator for all members, each client for its neighbours.
#pragma once

#include <string>
#include <string_view>

#include "federated/secure/messages.h"
#include "federated/secure/protocol.h"

namespace rivulet::secure {

std::string DerOf(const Certificate& certificate);

// The certificate's public key, by which later signatures are checked. FAILED_PRECONDITION, naming the member: a
// certificate that the authority did not sign, that is revoked, expired, another's or of another role; a key that is
// not of P-256; a signature that is not over these keys.
StatusOr<KeyHandle> VerifyAnnouncement(const Digest& session_context, const Member& member, const Voucher& voucher,
                                       const Trust& trust, Refusals refusals = {});

}  // namespace rivulet::secure
