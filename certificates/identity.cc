#include "certificates/identity.h"

#include "certificates/key.h"
#include "certificates/kit.h"

namespace rivulet {
namespace {

constexpr int64_t kWarnDays = 30;

}  // namespace

StatusOr<NodeIdentity> LoadIdentity(FileSystem& fs, const Clock& clock, const std::string& folder,
                                    RevocationRecord* record) {
  const auto path_of = [&](std::string_view name) { return JoinPath(folder, name); };
  const auto read = [&](std::string_view name) -> StatusOr<std::string> {
    StatusOr<std::string> bytes = fs.ReadAll(path_of(name));
    if (!absl::IsNotFound(bytes.status())) {
      if (bytes.ok()) return bytes;
      return WithMend(bytes.status());
    }
    return NotFound(
        "'{}' is missing; the folder holds {}, {} and {}, as 'rivulet ca kit' and 'rivulet ca issue' make it",
        path_of(name), kNodeKey, kNodeCertificate, kAuthorityCertificate);
  };
  NodeIdentity identity;
  RIVULET_ASSIGN_OR_RETURN(identity.certificate_pem, read(kNodeCertificate));
  RIVULET_ASSIGN_OR_RETURN(identity.authority_pem, read(kAuthorityCertificate));
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           ReadCertificate(identity.certificate_pem, path_of(kNodeCertificate)));
  RIVULET_ASSIGN_OR_RETURN(identity.authority, ReadCertificate(identity.authority_pem, path_of(kAuthorityCertificate)));
  if (!identity.authority.authority) {
    return FailedPrecondition("'{}' is not an authority's certificate; take {} from the authority's folder",
                              path_of(kAuthorityCertificate), kAuthorityCertificate);
  }
  std::optional<std::string> list;
  if (fs.Exists(path_of(kRevokedList))) {
    RIVULET_ASSIGN_OR_RETURN(list, read(kRevokedList));
  }
  RevocationRecord nothing_before(fs, "");
  RevocationRecord& lists = record != nullptr ? *record : nothing_before;
  RIVULET_ASSIGN_OR_RETURN(identity.revoked, lists.Take(list, path_of(kRevokedList), identity.authority));
  if (list && lists.fault().empty()) identity.revoked_pem = *list;
  const int64_t now = clock.UnixMs() / 1000;
  const RevocationList* revoked = identity.revoked ? &*identity.revoked : nullptr;
  for (const CertificatePurpose purpose : {CertificatePurpose::kConnect, CertificatePurpose::kServe}) {
    const bool needed =
        !certificate.name || (purpose == CertificatePurpose::kServe ? ServesOthers(certificate.name->role)
                                                                    : ConnectsToOthers(certificate.name->role));
    if (!needed) continue;
    if (const Status status = VerifyCertificate(certificate, identity.authority, revoked, purpose, now); !status.ok())
      return Annotate(status, fmt::format("'{}'", path_of(kNodeCertificate)));
  }
  RIVULET_ASSIGN_OR_RETURN(identity.key_pem, read(kNodeKey));
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, ReadKey(identity.key_pem, path_of(kNodeKey)));
  if (X509_check_private_key(certificate.x509.get(), key.get()) != 1) {
    (void)OpenSslError("");  // empties its queue
    return FailedPrecondition(
        "the key '{}' is not that of {} beside it; take both from one kit, or have the request of this key certified",
        path_of(kNodeKey), kNodeCertificate);
  }
  RIVULET_RETURN_IF_ERROR(CheckPrivate(path_of(kNodeKey)));
  identity.name = *certificate.name;
  identity.hosts = certificate.hosts;
  identity.serial = certificate.serial;
  identity.validity = certificate.validity;
  return identity;
}

std::string ExpiryWarning(const NodeIdentity& identity, int64_t now) {
  if (DaysLeft(identity.validity.until, now) > kWarnDays) return "";
  return fmt::format("{}: renew the certificate of '{}' soon ('rivulet ca renew')", ExpiryText(identity.validity, now),
                     identity.name.ToString());
}

std::string ListExpiryWarning(const NodeIdentity& identity, int64_t now) {
  if (!identity.revoked || identity.revoked->next_update == 0 || now <= identity.revoked->next_update) return "";
  return fmt::format(
      "the revocation list {} was to be replaced before {}; it stays in force, but nodes revoked since are admitted: "
      "copy the newest {} from the authority's folder",
      identity.revoked->number, DayText(identity.revoked->next_update), kRevokedList);
}

StatusOr<Certificate> VerifyPeer(std::string_view pem, const NodeIdentity& identity, CertificatePurpose purpose,
                                 int64_t now) {
  RIVULET_ASSIGN_OR_RETURN(Certificate certificate, ReadCertificate(pem, "the peer's certificate"));
  const RevocationList* revoked = identity.revoked ? &*identity.revoked : nullptr;
  RIVULET_RETURN_IF_ERROR(VerifyCertificate(certificate, identity.authority, revoked, purpose, now));
  return certificate;
}

}  // namespace rivulet
