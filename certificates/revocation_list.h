// Serial numbers that an authority has revoked (a version 2 CRL, RFC 5280 section 5), signed by it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "certificates/certificate.h"

namespace rivulet {

// The reason; the numbers are RFC 5280's.
enum class RevocationReason { kUnspecified = 0, kKeyCompromise = 1, kSuperseded = 4, kCessation = 5 };
std::string_view ReasonText(RevocationReason reason);  // "unspecified", "key-compromise", "superseded", "cessation"
// INVALID_ARGUMENT lists the known ones.
StatusOr<RevocationReason> ParseReason(std::string_view text);

struct Revocation {
  int64_t at = 0;  // seconds since 1970 UTC
  RevocationReason reason = RevocationReason::kUnspecified;
  bool operator==(const Revocation&) const = default;
};
using Revocations = std::map<std::string, Revocation, std::less<>>;  // by serial number

// In PEM. It is valid as long as the authority: a list that expired would lock all sites out on a day without any
// fault. A reader learns of a newer list by receiving it.
StatusOr<std::string> SignRevocationList(const Revocations& revocations, int64_t now, int64_t number,
                                         const Certificate& authority, EVP_PKEY* authority_key);

struct RevocationList {
  Revocations revocations;
  int64_t number = 0;       // grows with each list of an authority
  int64_t next_update = 0;  // when the next list is due, in seconds since 1970 UTC; 0: not stated
  bool Contains(std::string_view serial) const { return revocations.contains(serial); }
};
// INVALID_ARGUMENT, naming `where`: no list. FAILED_PRECONDITION: not signed by `authority`. Its dates are not
// checked.
StatusOr<RevocationList> ReadRevocationList(std::string_view pem, std::string_view where, const Certificate& authority);

}  // namespace rivulet
