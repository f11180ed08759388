#include "certificates/ephemeral_authority.h"

#include "certificates/key.h"
#include "certificates/kit.h"
#include "certificates/private_files.h"
#include "certificates/revocation_list.h"

namespace rivulet {
namespace {

constexpr int64_t kDaysOfEphemeral = 365;  // longer than any command runs

}  // namespace

StatusOr<EphemeralAuthority> EphemeralAuthority::Create(const Clock& clock) {
  EphemeralAuthority authority;
  RIVULET_ASSIGN_OR_RETURN(authority.key_, MakeKey());
  const int64_t now = clock.UnixMs() / 1000;
  // The command must survive a clock that is set back.
  const Validity validity{.from = now - kSecondsPerDay, .until = now + kDaysOfEphemeral * kSecondsPerDay};
  RIVULET_ASSIGN_OR_RETURN(authority.certificate_, SignAuthority("rivulet up", authority.key_.get(), validity));
  RIVULET_ASSIGN_OR_RETURN(authority.revocation_list_,
                           SignRevocationList({}, now, 1, authority.certificate_, authority.key_.get()));
  return authority;
}

Status EphemeralAuthority::Issue(const Subject& subject, FileSystem& fs, const std::string& folder) const {
  RIVULET_RETURN_IF_ERROR(CheckSubject(subject));
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeKey());
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           SignSubject(subject, key.get(), certificate_.validity, certificate_, key_.get()));
  NodeFiles node{
      .key = "", .certificate = certificate.Pem(), .authority = certificate_.Pem(), .revoked = revocation_list_};
  RIVULET_ASSIGN_OR_RETURN(node.key, KeyPem(key.get()));
  PrivateFileSystem its_own(fs);
  RIVULET_RETURN_IF_ERROR(its_own.CreateFolder(folder));
  for (const DeliveredFile& file : FilesOfNode(node)) {
    RIVULET_ASSIGN_OR_RETURN(const auto written, its_own.Create(JoinPath(folder, file.name)));
    RIVULET_RETURN_IF_ERROR(written->Append(file.bytes));
    RIVULET_RETURN_IF_ERROR(written->Close());
  }
  return absl::OkStatus();
}

StatusOr<NodeIdentity> EphemeralAuthority::IdentityOf(const Subject& subject) const {
  RIVULET_RETURN_IF_ERROR(CheckSubject(subject));
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeKey());
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           SignSubject(subject, key.get(), certificate_.validity, certificate_, key_.get()));
  NodeIdentity identity;
  identity.name = subject.name;
  identity.hosts = subject.hosts;
  identity.serial = certificate.serial;
  identity.validity = certificate.validity;
  identity.certificate_pem = certificate.Pem();
  identity.authority_pem = certificate_.Pem();
  RIVULET_ASSIGN_OR_RETURN(identity.key_pem, KeyPem(key.get()));
  RIVULET_ASSIGN_OR_RETURN(identity.authority, ReadCertificate(identity.authority_pem, "this process's authority"));
  return identity;
}

}  // namespace rivulet
