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

// From `from` to `until`, both inclusive, in seconds since 1970 UTC.
struct Validity {
  int64_t from = 0, until = 0;
};
inline constexpr int64_t kSecondsPerDay = 86400;
// Remaining days, rounded up; negative: days since the end.
int64_t DaysLeft(int64_t until, int64_t now);
std::string DayText(int64_t seconds);   // "2026-11-22"
std::string TimeText(int64_t seconds);  // "2026-11-22T14:25:30Z"
// "365 days left", "expired 12 days ago"; or that it begins later.
std::string ExpiryText(Validity validity, int64_t now);

struct Certificate {
  X509Handle x509;
  std::string serial;  // as in SerialText
  Validity validity;
  std::string subject;                  // its common name
  std::optional<CertificateName> name;  // nullopt: an authority's, or no certificate of this system
  std::vector<std::string> hosts;
  bool authority = false;  // may sign others

  std::string Pem() const;
};

// The first certificate of `pem`, the form in which handshakes give a peer's too; only its form is checked.
// INVALID_ARGUMENT, naming `where`: there is none, or it has two names of this system, or a malformed one.
StatusOr<Certificate> ReadCertificate(std::string_view pem, std::string_view where);
StatusOr<Certificate> CertificateOf(X509Handle x509, std::string_view where);

}  // namespace rivulet
