// Who wrote a plan, as it travels with it: the last 100 bytes of a signed plan are its fields `author` and `signature`,
// and the signature is over all bytes before them. So a signed plan is stored, digested, sent and kept as any other,
// by whoever knows nothing of signatures, and with the fields cut off it is the plan that was signed.
//
//   plan bytes | 5A 20 author (32 bytes) | 62 40 signature (64 bytes)
//
// This file knows where they lie; certificates/author.h whether they are right.
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
