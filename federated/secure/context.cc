#include "federated/secure/context.h"

namespace rivulet::secure {
namespace {

// Each label begins what it names, and none begins another.
constexpr std::string_view kSessionLabel = "rivulet secagg 1 session";
// Of an attempt that measures a version. Training from it may have the same numbers.
constexpr std::string_view kMeasureLabel = "rivulet secagg 1 measure";
constexpr std::string_view kCohortLabel = "rivulet secagg 1 cohort";
constexpr std::string_view kKeysLabel = "rivulet secagg 1 keys";
constexpr std::string_view kSurvivorsLabel = "rivulet secagg 1 survivors";
constexpr std::string_view kSealLabel = "rivulet secagg 1 seal";
constexpr std::string_view kSelfMaskLabel = "rivulet secagg 1 self";
constexpr std::string_view kPairMaskLabel = "rivulet secagg 1 pair";

void AppendU32(std::string& text, uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(value >> (8 * byte));
}

std::string_view KeyBytes(const PublicKey& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

std::string Begun(std::string_view label, const Digest& context) {
  std::string text(label);
  text += context.AsBytes();
  return text;
}

}  // namespace

Digest SessionContext(const Session& session) {
  Sha256 hash;
  hash.Update(session.measures ? kMeasureLabel : kSessionLabel);
  hash.UpdateU32(static_cast<uint32_t>(session.run.size())).Update(session.run);
  hash.Update(session.plan.AsBytes()).Update(session.model.AsBytes());
  hash.UpdateU64(session.version).UpdateU32(session.attempt);
  return std::move(hash).Finish();
}

Digest CohortContext(const Digest& session_context, std::span<const Member> members) {
  Sha256 hash;
  hash.Update(kCohortLabel).Update(session_context.AsBytes()).UpdateU32(static_cast<uint32_t>(members.size()));
  for (const Member& member : members) {
    hash.UpdateU32(static_cast<uint32_t>(member.name.size())).Update(member.name);
    hash.Update(KeyBytes(member.channel)).Update(KeyBytes(member.mask));
  }
  return std::move(hash).Finish();
}

std::string KeysToSign(const Digest& session_context, const PublicKey& channel, const PublicKey& mask) {
  std::string text = Begun(kKeysLabel, session_context);
  text += KeyBytes(channel);
  text += KeyBytes(mask);
  return text;
}

std::string SurvivorsToSign(const Digest& cohort_context, std::string_view survivors) {
  std::string text = Begun(kSurvivorsLabel, cohort_context);
  text += survivors;
  return text;
}

std::string SealInfo(const Digest& cohort_context, uint8_t step, uint32_t from, uint32_t to) {
  std::string text = Begun(kSealLabel, cohort_context);
  text += static_cast<char>(step);
  AppendU32(text, from);
  AppendU32(text, to);
  return text;
}

std::string SelfMaskInfo(const Digest& cohort_context, uint32_t member) {
  std::string text = Begun(kSelfMaskLabel, cohort_context);
  AppendU32(text, member);
  return text;
}

std::string PairMaskInfo(const Digest& cohort_context, uint32_t lower, uint32_t higher) {
  std::string text = Begun(kPairMaskLabel, cohort_context);
  AppendU32(text, lower);
  AppendU32(text, higher);
  return text;
}

}  // namespace rivulet::secure
