#include "federated/secure/announcement.h"

#include <openssl/err.h>

#include "certificates/signature.h"
#include "certificates/verify.h"
#include "engine/base/display_name.h"
#include "federated/secure/verified_certificates.h"

namespace rivulet::secure {
namespace {

constexpr size_t kShownBytes = 80;

// The key of the member's certificate, once that was verified. Those that were verified before are known.
StatusOr<KeyHandle> CertifiedKey(const Member& member, const Voucher& voucher, const Trust& trust, Refusals refusals) {
  if (std::optional<KeyHandle> known =
          VerifiedCertificates::OfProcess().KeyOf(voucher.certificate, member.name, trust)) {
    return *std::move(known);
  }
  const std::string shown = DisplayText(member.name, kShownBytes);
  const auto* at = reinterpret_cast<const uint8_t*>(voucher.certificate.data());
  const auto* const end = at + voucher.certificate.size();
  X509Handle x509(d2i_X509(nullptr, &at, static_cast<long>(voucher.certificate.size())));
  ERR_clear_error();
  if (x509 == nullptr || at != end) {
    return FailedPrecondition("member '{}' shows {} bytes that are no certificate", shown, voucher.certificate.size());
  }
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           CertificateOf(std::move(x509), fmt::format("the certificate of member '{}'", shown)));
  const bool its_own =
      certificate.name && certificate.name->role == Role::kClient && certificate.name->id == member.name;
  if (!its_own && refusals.Holds(Refusal::kOthersCertificate)) {
    return FailedPrecondition(
        "member '{}' shows the certificate of '{}'", shown,
        DisplayText(certificate.name ? certificate.name->ToString() : certificate.subject, kShownBytes));
  }
  const Status valid =
      VerifyCertificate(certificate, *trust.authority, trust.revoked, CertificatePurpose::kConnect, trust.now);
  if (!valid.ok() && refusals.Holds(Refusal::kInvalidCertificate)) {
    return Annotate(valid, fmt::format("member '{}'", shown));
  }
  KeyHandle key(X509_get_pubkey(certificate.x509.get()));
  RIVULET_RETURN_IF_ERROR(CheckSigningKey(key.get(), shown));
  if (its_own && valid.ok()) {
    VerifiedCertificates::OfProcess().Add(voucher.certificate, certificate, key.get(), trust);
  }
  return key;
}

}  // namespace

std::string DerOf(const Certificate& certificate) {
  uint8_t* bytes = nullptr;
  const int size = i2d_X509(certificate.x509.get(), &bytes);
  if (size <= 0) return "";
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

StatusOr<KeyHandle> VerifyAnnouncement(const Digest& session_context, const Member& member, const Voucher& voucher,
                                       const Trust& trust, Refusals refusals) {
  RIVULET_ASSIGN_OR_RETURN(KeyHandle key, CertifiedKey(member, voucher, trust, refusals));
  if (!IsSignature(key.get(), KeysToSign(session_context, member.channel, member.mask), voucher.signature) &&
      refusals.Holds(Refusal::kUnsignedKeys)) {
    return FailedPrecondition(
        "member '{}' did not sign its keys for this attempt: the coordinator invented or replaced them, or gave it "
        "another plan or model",
        DisplayText(member.name, kShownBytes));
  }
  return key;
}

}  // namespace rivulet::secure
