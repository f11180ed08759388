#include "federated/secure/verified_certificates.h"

#include <algorithm>
#include <utility>

#include "federated/secure/announcement.h"
#include "federated/secure/messages.h"

namespace rivulet::secure {
namespace {

Digest EntryKey(std::string_view der, const Certificate& authority) {
  Sha256 hash;
  hash.Update(Sha256Of(der).AsBytes()).Update(Sha256Of(DerOf(authority)).AsBytes());
  return std::move(hash).Finish();
}

KeyHandle Shared(EVP_PKEY* key) {
  EVP_PKEY_up_ref(key);
  return KeyHandle(key);
}

}  // namespace

VerifiedCertificates& VerifiedCertificates::OfProcess() {
  static auto* const certificates = new VerifiedCertificates;
  return *certificates;
}

std::optional<KeyHandle> VerifiedCertificates::KeyOf(std::string_view der, std::string_view client,
                                                     const Trust& trust) {
  const Digest at = EntryKey(der, *trust.authority);
  MutexLock lock(mutex_);
  const auto found = entries_.find(at);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  const bool in_its_days = trust.now >= entry.validity.from && trust.now <= entry.validity.until;
  const bool revoked = trust.revoked != nullptr && trust.revoked->Contains(entry.serial);
  if (entry.client != client || !in_its_days || revoked) return std::nullopt;
  return Shared(entry.key.get());
}

void VerifiedCertificates::Add(std::string_view der, const Certificate& certificate, EVP_PKEY* key,
                               const Trust& trust) {
  if (!certificate.name) return;
  Entry entry{.client = certificate.name->id,
              .serial = certificate.serial,
              .validity = {std::max(certificate.validity.from, trust.authority->validity.from),
                           std::min(certificate.validity.until, trust.authority->validity.until)},
              .key = Shared(key)};
  const Digest at = EntryKey(der, *trust.authority);
  MutexLock lock(mutex_);
  if (entries_.size() >= static_cast<size_t>(kMostMembers)) entries_.clear();
  entries_.insert_or_assign(at, std::move(entry));
}

}  // namespace rivulet::secure
