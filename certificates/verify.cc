#include "certificates/verify.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "engine/base/display_name.h"
#include "engine/base/error_facts.h"
#include "engine/base/join.h"

namespace rivulet {

namespace {

bool IsSignedBy(const Certificate& certificate, const Certificate& authority) {
  const bool is = X509_verify(certificate.x509.get(), X509_get0_pubkey(authority.x509.get())) == 1;
  ERR_clear_error();
  return is;
}

}  // namespace

Status VerifyCertificate(const Certificate& certificate, const Certificate& authority, const RevocationList* revoked,
                         CertificatePurpose purpose, int64_t now) {
  if (!certificate.name) {
    return FailedPrecondition(
        "the certificate '{}' has no name of the form rivulet:client/ID; have one issued by 'rivulet ca issue'",
        DisplayText(certificate.subject, 80));
  }
  const std::string name = certificate.name->ToString();
  if (revoked != nullptr) {
    if (const auto found = revoked->revocations.find(certificate.serial); found != revoked->revocations.end()) {
      Status status =
          FailedPrecondition("the certificate {} of '{}' was revoked on {} ({}); ask the authority for another",
                             certificate.serial, name, DayText(found->second.at), ReasonText(found->second.reason));
      if (!IsSignedBy(certificate, authority)) return status;
      return WithFact(WithFact(std::move(status), kRevokedFact, certificate.serial), kRevokedNameFact, name);
    }
  }
  // The owner of such a key could sign certificates of any name. OpenSSL accepts it: a chain of two signers counts as
  // too long only once the second one is shown.
  if ((X509_get_extension_flags(certificate.x509.get()) & EXFLAG_CA) != 0) {
    return FailedPrecondition(
        "the certificate of '{}' is that of an authority (CA:TRUE), and a node's must not sign others; have one issued "
        "by "
        "'rivulet ca issue'",
        name);
  }
  const StoreHandle store(X509_STORE_new());
  const StoreContextHandle context(X509_STORE_CTX_new());
  if (X509_STORE_add_cert(store.get(), authority.x509.get()) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate.x509.get(), nullptr) != 1) {
    return OpenSslError("verify a certificate");
  }
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(now));
  X509_STORE_CTX_set_purpose(context.get(),
                             purpose == CertificatePurpose::kServe ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  const bool good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  const bool of_authority = X509_STORE_CTX_get_error_depth(context.get()) > 0;
  ERR_clear_error();
  if (good) return absl::OkStatus();
  const Certificate& at_fault = of_authority ? authority : certificate;
  const std::string whose = of_authority ? fmt::format("the authority '{}'", authority.subject) : name;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return FailedPrecondition("the certificate of {} {}; renew it ('rivulet ca renew {}')",
                                of_authority ? whose : fmt::format("'{}'", name), ExpiryText(at_fault.validity, now),
                                of_authority ? "authority" : name);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return FailedPrecondition("the certificate of {} {}, and here it is {}; set the clock",
                                of_authority ? whose : fmt::format("'{}'", name), ExpiryText(at_fault.validity, now),
                                TimeText(now));
    case X509_V_ERR_INVALID_PURPOSE:
      return FailedPrecondition("the certificate of '{}' is not made to {}; issue one of another role", name,
                                purpose == CertificatePurpose::kServe ? "serve others" : "connect to others");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return FailedPrecondition("the certificate of '{}' is not signed by the authority '{}'; have one issued by it",
                                name, authority.subject);
    default:
      return FailedPrecondition(
          "the certificate of '{}' is not signed by the authority '{}' ({}); have one issued by it", name,
          authority.subject, X509_verify_cert_error_string(error));
  }
}

Status VerifyHost(const Certificate& certificate, std::string_view host) {
  const std::string text(host);
  const bool found =
      IsAddress(host)
          ? X509_check_ip_asc(certificate.x509.get(), text.c_str(), 0) == 1
          : X509_check_host(certificate.x509.get(), text.data(), text.size(),
                            X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS, nullptr) == 1;
  ERR_clear_error();
  if (found) return absl::OkStatus();
  const std::string name = certificate.name ? certificate.name->ToString() : certificate.subject;
  return FailedPrecondition(
      "the certificate of '{}' is for {} and not for '{}'; reach it by one of these, or have one issued with --host {}",
      name, Join(certificate.hosts, ", "), host, host);
}

}  // namespace rivulet
