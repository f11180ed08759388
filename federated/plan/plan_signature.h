// Signature of a plan by its author, as part of the plan. The last 100 bytes of a signed plan are its fields `author`
// and `signature`, and the signature is over all bytes before them. So code without knowledge of signatures stores,
// digests and sends a signed plan as any other. Without these fields it is the plan that was signed.
//
//   plan bytes | 5A 20 author (32 bytes) | 62 40 signature (64 bytes)
//
// This file has the layout; certificates/author.h verifies.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

struct PlanSignature {
  std::string_view plan;               // what was signed
  std::string_view author, signature;  // "": it is not signed
};
// Views of `bytes`.
PlanSignature SignatureOf(std::string_view bytes);

// `plan` is not signed. `author` has 32 bytes, `signature` 64.
std::string WithSignature(std::string_view plan, std::string_view author, std::string_view signature);

}  // namespace rivulet
