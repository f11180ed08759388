#include "federated/plan/plan_signature.h"

#include "engine/base/check.h"

namespace rivulet {
namespace {

// The bytes before each field: its number and kind, and its length (proto/federated/plan.proto: 11 and 12, bytes).
constexpr std::string_view kAuthorHead = "\x5A\x20", kSignatureHead = "\x62\x40";
constexpr size_t kAuthorSize = 32, kSignatureSize = 64;
constexpr size_t kSuffix = 2 + kAuthorSize + 2 + kSignatureSize;

}  // namespace

PlanSignature SignatureOf(std::string_view bytes) {
  if (bytes.size() < kSuffix) return {bytes, "", ""};
  const std::string_view suffix = bytes.substr(bytes.size() - kSuffix);
  if (!suffix.starts_with(kAuthorHead) || suffix.substr(2 + kAuthorSize, 2) != kSignatureHead) return {bytes, "", ""};
  return {bytes.substr(0, bytes.size() - kSuffix), suffix.substr(2, kAuthorSize), suffix.substr(4 + kAuthorSize)};
}

std::string WithSignature(std::string_view plan, std::string_view author, std::string_view signature) {
  RIVULET_CHECK(author.size() == kAuthorSize && signature.size() == kSignatureSize);
  std::string bytes;
  bytes.reserve(plan.size() + kSuffix);
  for (const std::string_view piece : {plan, kAuthorHead, author, kSignatureHead, signature}) bytes += piece;
  return bytes;
}

}  // namespace rivulet
