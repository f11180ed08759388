// Signature of a plan by its author, as part of the plan. The last 100 bytes of a signed plan are its fields `author`
// and `signature`, and the signature covers all bytes before them. So code without knowledge of signatures stores,
// digests and sends a signed plan as any other. Without these fields it is the original unsigned plan.
//
//   plan bytes | 5A 20 author (32 bytes) | 62 40 signature (64 bytes)
//
// This file defines the layout; certificates/author.h verifies signatures.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

struct PlanSignature {
  std::string_view plan;               // the signed bytes
  std::string_view author, signature;  // "": not signed
};
// The fields are views of `bytes`.
PlanSignature SignatureOf(std::string_view bytes);

// `plan` must be unsigned. `author` has 32 bytes, `signature` 64.
std::string WithSignature(std::string_view plan, std::string_view author, std::string_view signature);

}  // namespace rivulet
