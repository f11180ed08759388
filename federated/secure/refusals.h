// Refusals of a client that attacks meet. A test takes one out at a time and shows that the attack then succeeds
// (tests/federated/secure/recording_attack_test.cc). Programs cannot: the class that may is a test's.
#pragma once

#include <cstdint>

namespace rivulet::secure {

enum class Refusal : uint8_t {
  kNone,
  kSmallCohort,         // a cohort below the plan's least
  kWeakGraph,           // a cohort whose protected sum is below the plan's least
  kMemberTwice,         // one name for several members
  kOlderList,           // a revocation list before the last one seen
  kInvalidCertificate,  // a neighbour's that is not the authority's, revoked, or out of its days
  kOthersCertificate,   // a neighbour's under another name
  kUnsignedKeys,        // keys that their owner did not sign for this session
  kFewSharers,          // too few neighbours that shared
  kFewSurvivors,        // a set below the plan's least
  kOtherSet,            // a signature over another set of survivors
  kFewSignatures,       // too few holders that signed
  kSecondAnswer,        // a step that was answered before; secrets then stay
};

// All of them, but where a test says otherwise.
class Refusals {
 public:
  bool Holds(Refusal refusal) const { return refusal != out_; }

 private:
  friend class WithoutRefusal;  // defined in tests alone
  Refusal out_ = Refusal::kNone;
};

}  // namespace rivulet::secure
