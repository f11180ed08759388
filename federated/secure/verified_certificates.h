// Cache of certificates that an authority has signed, for the announcements of one process. A client meets its
// neighbours again in later rounds, and a simulation meets each certificate once for every neighbour. To parse and
// verify one takes several times as long as to verify its signature over the keys.
//
// A certificate is found by the SHA-256 of its bytes and of its authority's. Days and revocations are checked at each
// use. Thread-safe. Memory: 1 KB an entry, and as many as a cohort may have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "certificates/certificate.h"
#include "certificates/key.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "federated/secure/protocol.h"

namespace rivulet::secure {

class VerifiedCertificates {
 public:
  static VerifiedCertificates& OfProcess();

  // The key of a client's certificate that was added before. None: it was not, or is another client's, revoked, or not
  // good on this day.
  std::optional<KeyHandle> KeyOf(std::string_view der, std::string_view client, const Trust& trust) EXCLUDES(mutex_);
  // A certificate that VerifyCertificate has found good under `trust`.
  void Add(std::string_view der, const Certificate& certificate, EVP_PKEY* key, const Trust& trust) EXCLUDES(mutex_);

 private:
  struct Entry {
    std::string client, serial;
    Validity validity;  // of the certificate and of its authority
    KeyHandle key;
  };
  Mutex mutex_;
  std::map<Digest, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace rivulet::secure
