// Context of an attempt, as digests. They enter every signature, derived key and sealed message, so that no message of
// one attempt is valid in another. Clients that were given different models, plans or cohorts share no key.
// docs/internals/secure-aggregation.md states all bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/sha256.h"
#include "federated/secure/key_agreement.h"

namespace rivulet::secure {

// One attempt of one version. Each client fills it from its own signed plan and its own copy of the model.
struct Session {
  std::string run;
  Digest plan;   // of the signed plan
  Digest model;  // of the base model, as this client computed it
  uint64_t version = 0;
  uint32_t attempt = 0;
  bool measures = false;  // the version is measured; else it is trained from
};

// One member of a cohort, as the coordinator tells all others.
struct Member {
  std::string name;
  PublicKey channel{}, mask{};
};

// What keys are signed under, before the cohort is known.
Digest SessionContext(const Session& session);
// What all else is signed, derived and sealed under. `members`: ascending by the bytes of their names.
Digest CohortContext(const Digest& session_context, std::span<const Member> members);

// What is signed at step 0, by the certificate's key, and at step 3.
std::string KeysToSign(const Digest& session_context, const PublicKey& channel, const PublicKey& mask);
std::string SurvivorsToSign(const Digest& cohort_context, std::string_view survivors);

// The info of derived keys, and the associated data of sealed messages. Members by their numbers in the cohort.
std::string SealInfo(const Digest& cohort_context, uint8_t step, uint32_t from, uint32_t to);
std::string SelfMaskInfo(const Digest& cohort_context, uint32_t member);
std::string PairMaskInfo(const Digest& cohort_context, uint32_t lower, uint32_t higher);

}  // namespace rivulet::secure
