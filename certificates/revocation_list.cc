#include "certificates/revocation_list.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

#include "engine/base/nearest.h"

namespace rivulet {
namespace {

constexpr std::array kReasons = {RevocationReason::kUnspecified, RevocationReason::kKeyCompromise,
                                 RevocationReason::kSuperseded, RevocationReason::kCessation};

Status AddRevoked(X509_CRL* crl, const std::string& serial, const Revocation& revocation) {
  RevokedHandle revoked(X509_REVOKED_new());
  RIVULET_ASSIGN_OR_RETURN(const IntegerHandle number, SerialOf(serial));
  const TimeHandle at = TimeOf(revocation.at);
  if (X509_REVOKED_set_serialNumber(revoked.get(), number.get()) != 1 ||
      X509_REVOKED_set_revocationDate(revoked.get(), at.get()) != 1) {
    return OpenSslError("revoke a certificate");
  }
  // "Unspecified" is expressed by no reason (RFC 5280, section 5.3.1).
  if (revocation.reason != RevocationReason::kUnspecified) {
    const EnumeratedHandle reason(ASN1_ENUMERATED_new());
    ASN1_ENUMERATED_set(reason.get(), static_cast<long>(revocation.reason));
    if (X509_REVOKED_add1_ext_i2d(revoked.get(), NID_crl_reason, reason.get(), 0, 0) != 1)
      return OpenSslError("revoke a certificate");
  }
  if (X509_CRL_add0_revoked(crl, revoked.get()) != 1) return OpenSslError("revoke a certificate");
  (void)revoked.release();  // owned by the list now
  return absl::OkStatus();
}

}  // namespace

std::string_view ReasonText(RevocationReason reason) {
  switch (reason) {
    case RevocationReason::kUnspecified:
      return "unspecified";
    case RevocationReason::kKeyCompromise:
      return "key-compromise";
    case RevocationReason::kSuperseded:
      return "superseded";
    case RevocationReason::kCessation:
      return "cessation";
  }
  return "";
}

StatusOr<RevocationReason> ParseReason(std::string_view text) {
  std::vector<std::string> known;
  for (const RevocationReason reason : kReasons) {
    if (ReasonText(reason) == text) return reason;
    known.emplace_back(ReasonText(reason));
  }
  return InvalidArgument("'{}' is no reason; there are unspecified, key-compromise, superseded and cessation.{}",
                         text.substr(0, 80), DidYouMean(text, known));
}

StatusOr<std::string> SignRevocationList(const Revocations& revocations, int64_t now, int64_t number,
                                         const Certificate& authority, EVP_PKEY* authority_key) {
  const CrlHandle crl(X509_CRL_new());
  const TimeHandle last = TimeOf(std::max(now, authority.validity.from)), next = TimeOf(authority.validity.until);
  if (X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(authority.x509.get())) != 1 ||
      X509_CRL_set1_lastUpdate(crl.get(), last.get()) != 1 || X509_CRL_set1_nextUpdate(crl.get(), next.get()) != 1) {
    return OpenSslError("make a revocation list");
  }
  for (const auto& [serial, revocation] : revocations)
    RIVULET_RETURN_IF_ERROR(AddRevoked(crl.get(), serial, revocation));
  X509_CRL_sort(crl.get());
  RIVULET_ASSIGN_OR_RETURN(const ExtensionHandle key,
                           MakeExtension(NID_authority_key_identifier, "keyid:always", authority.x509.get(), nullptr));
  const IntegerHandle count(ASN1_INTEGER_new());
  const BioHandle bio = EmptyBio();
  const EVP_MD* digest = EVP_PKEY_get_base_id(authority_key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  if (ASN1_INTEGER_set_int64(count.get(), number) != 1 || X509_CRL_add_ext(crl.get(), key.get(), -1) != 1 ||
      X509_CRL_add1_ext_i2d(crl.get(), NID_crl_number, count.get(), 0, 0) != 1 ||
      X509_CRL_sign(crl.get(), authority_key, digest) == 0 || PEM_write_bio_X509_CRL(bio.get(), crl.get()) != 1) {
    return OpenSslError("sign a revocation list");
  }
  return TextOf(bio.get());
}

StatusOr<RevocationList> ReadRevocationList(std::string_view pem, std::string_view where,
                                            const Certificate& authority) {
  const CrlHandle crl(PEM_read_bio_X509_CRL(BioOver(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (crl == nullptr) {
    return InvalidArgument("'{}' holds no revocation list in PEM; take revoked.crl from the authority's folder", where);
  }
  const bool signed_by_it = X509_CRL_verify(crl.get(), X509_get0_pubkey(authority.x509.get())) == 1;
  ERR_clear_error();
  if (!signed_by_it) {
    return FailedPrecondition(
        "the revocation list '{}' is not signed by the authority '{}'; take revoked.crl from its folder", where,
        authority.subject);
  }
  RevocationList list;
  if (const IntegerHandle number(
          static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(crl.get(), NID_crl_number, nullptr, nullptr)));
      number != nullptr) {
    ASN1_INTEGER_get_int64(&list.number, number.get());
  }
  if (const ASN1_TIME* next = X509_CRL_get0_nextUpdate(crl.get()); next != nullptr) list.next_update = SecondsOf(next);
  STACK_OF(X509_REVOKED)* all = X509_CRL_get_REVOKED(crl.get());
  for (int i = 0; i < sk_X509_REVOKED_num(all); ++i) {
    const X509_REVOKED* revoked = sk_X509_REVOKED_value(all, i);
    Revocation& revocation = list.revocations[SerialText(X509_REVOKED_get0_serialNumber(revoked))];
    revocation.at = SecondsOf(X509_REVOKED_get0_revocationDate(revoked));
    const EnumeratedHandle reason(
        static_cast<ASN1_ENUMERATED*>(X509_REVOKED_get_ext_d2i(revoked, NID_crl_reason, nullptr, nullptr)));
    if (reason != nullptr) revocation.reason = static_cast<RevocationReason>(ASN1_ENUMERATED_get(reason.get()));
  }
  ERR_clear_error();
  return list;
}

}  // namespace rivulet
