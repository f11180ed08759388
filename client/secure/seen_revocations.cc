#include "client/secure/seen_revocations.h"

namespace rivulet {

std::optional<RevocationList> SeenRevocations::Newest(const NodeIdentity& own) {
  MutexLock lock(mutex_);
  StatusOr<std::optional<RevocationList>> seen = record_.Take(std::nullopt, "of cohorts", own.authority);
  if (!seen.ok() || !*seen) return own.revoked;
  if (own.revoked && own.revoked->number >= (*seen)->number) return own.revoked;
  return *std::move(seen);
}

void SeenRevocations::Note(const std::string& pem, const NodeIdentity& own) {
  MutexLock lock(mutex_);
  record_.Take(pem, "of a cohort", own.authority).status().IgnoreError();  // an earlier one stays
}

}  // namespace rivulet
