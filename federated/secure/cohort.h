// A cohort that a client has checked: its members, the client's neighbours, and the valid signing keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "federated/secure/graph.h"
#include "federated/secure/messages.h"
#include "federated/secure/protocol.h"

namespace rivulet::secure {

struct CheckedCohort {
  Digest context;
  std::vector<Member> members;  // by number
  uint32_t self = 0;            // this client's number
  GraphShape shape;
  std::vector<uint32_t> neighbours, holders;  // of this client, ascending
  std::vector<KeyHandle> signing_keys;        // of its holders, in their order
  // The list that came with the cohort, if one did: at least as new as the last one seen.
  std::optional<RevocationList> revoked;
};

// FAILED_PRECONDITION, naming the lie: a cohort below the plan's minimum; members out of order or twice; a key twice;
// the client's own entry missing or with other keys; an older revocation list; no graph, or one that was searched for;
// another number of neighbours; a neighbour that VerifyAnnouncement refuses.
StatusOr<CheckedCohort> CheckCohort(CohortMessage message, const ClientSetup& setup, const Digest& session_context,
                                    const PublicKey& channel, const PublicKey& mask);

// Members in the order of their numbers, each name and each key once. Of both halves.
Status CheckMembers(const std::vector<Member>& members, Refusals refusals = {});

}  // namespace rivulet::secure
