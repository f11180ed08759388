// X.509 certificates of this system: an authority's own, and those that it signs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/name.h"
#include "certificates/openssl.h"

namespace rivulet {

// From `from` to `until`, both included, in seconds since 1970 UTC.
struct Validity {
  int64_t from = 0, until = 0;
};
inline constexpr int64_t kSecondsPerDay = 86400;
// Days that remain, a part of one as a whole one; negative: days that have passed.
int64_t DaysLeft(int64_t until, int64_t now);
std::string DayText(int64_t seconds);   // "2026-11-22"
std::string TimeText(int64_t seconds);  // "2026-11-22T14:25:30Z"
// "365 days left", "expired 12 days ago"; what begins later says so.
std::string ExpiryText(Validity validity, int64_t now);

struct Certificate {
  X509Handle x509;
  std::string serial;  // as SerialText
  Validity validity;
  std::string subject;                  // its common name
  std::optional<CertificateName> name;  // none: an authority's, or no certificate of this system
  std::vector<std::string> hosts;
  bool authority = false;  // may sign others

  std::string Pem() const;
};

// The first certificate of `pem`, which is how the peer's comes out of a handshake too; nothing is verified but its
// form. INVALID_ARGUMENT, naming `where`: there is none, or it has two names of this system, or one that is malformed.
StatusOr<Certificate> ReadCertificate(std::string_view pem, std::string_view where);
StatusOr<Certificate> CertificateOf(X509Handle x509, std::string_view where);

}  // namespace rivulet
