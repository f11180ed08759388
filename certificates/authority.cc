#include "certificates/authority.h"

#include <algorithm>
#include <set>

#include "certificates/key.h"
#include "engine/base/display_name.h"
#include "engine/base/nearest.h"
#include "engine/base/temporary_name.h"

namespace rivulet {
namespace {

constexpr std::string_view kKeyFile = "authority.key", kCertificateFile = "authority.crt", kIndexFile = "index.txt",
                           kListFile = "revoked.crl", kLockFile = "lock";
// Clocks of sites are behind by minutes; a new certificate must be valid there too.
constexpr int64_t kBackdated = 3600;

Status CheckDays(int64_t days) {
  if (days >= 1 && days <= kMostDays) return absl::OkStatus();
  return InvalidArgument("a certificate is good for 1 to {} days, not {}", kMostDays, days);
}

}  // namespace

Status Authority::Init(FileSystem& fs, const Clock& clock, const std::string& folder, std::string_view name, int days) {
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("the authority's name", name));
  RIVULET_RETURN_IF_ERROR(CheckDays(days));
  Delivery delivery(fs, folder, Delivery::Form::kFolder);
  if (fs.Exists(JoinPath(folder, kCertificateFile))) {
    return AlreadyExists("'{}' holds an authority already, which sites trust; to begin another one give another folder",
                         folder);
  }
  if (delivery.IsTaken()) return AlreadyExists("'{}' is there already; give a folder that is to be made", folder);
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.RemoveStaged()));  // of an interrupted call
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeKey());
  RIVULET_ASSIGN_OR_RETURN(const std::string key_pem, KeyPem(key.get()));
  const int64_t now = clock.UnixMs() / 1000;
  RIVULET_ASSIGN_OR_RETURN(
      const Certificate certificate,
      SignAuthority(name, key.get(), {.from = now - kBackdated, .until = now + days * kSecondsPerDay}));
  RIVULET_ASSIGN_OR_RETURN(const std::string list, SignRevocationList({}, now, now, certificate, key.get()));
  const std::vector<DeliveredFile> files = {{.name = std::string(kKeyFile), .bytes = key_pem},
                                            {.name = std::string(kCertificateFile), .bytes = certificate.Pem()},
                                            {.name = std::string(kIndexFile), .bytes = IndexText({})},
                                            {.name = std::string(kListFile), .bytes = list}};
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.Stage(certificate.serial, files, "", now)));
  return WithMend(delivery.Publish(certificate.serial));
}

StatusOr<std::unique_ptr<Authority>> Authority::OpenToRead(FileSystem& fs, const Clock& clock,
                                                           const std::string& folder) {
  std::unique_ptr<Authority> authority(new Authority(fs, clock, folder));
  RIVULET_RETURN_IF_ERROR(authority->Read());
  return authority;
}

StatusOr<std::unique_ptr<Authority>> Authority::OpenToSign(FileSystem& fs, const Clock& clock,
                                                           const std::string& folder) {
  std::unique_ptr<Authority> authority(new Authority(fs, clock, folder));
  RIVULET_RETURN_IF_ERROR(authority->Read());
  StatusOr<std::unique_ptr<FileLock>> lock = FileLock::Acquire(JoinPath(folder, kLockFile));
  if (absl::IsUnavailable(lock.status())) {
    return Unavailable("another process signs with the authority '{}'; call again when it has ended", folder);
  }
  if (!lock.ok()) return WithMend(lock.status());
  authority->lock_ = *std::move(lock);
  RIVULET_RETURN_IF_ERROR(authority->Read());  // read again under the lock
  RIVULET_RETURN_IF_ERROR(authority->ReadAuthorityKey());
  RIVULET_RETURN_IF_ERROR(authority->Settle());
  return authority;
}

Status Authority::Read() {
  const std::string certificate_path = JoinPath(folder_, kCertificateFile);
  if (!fs_.Exists(certificate_path)) {
    return NotFound(
        "'{}' holds no authority (there is no {}); name its folder with --ca, or make one with 'rivulet ca init'",
        folder_, kCertificateFile);
  }
  StatusOr<std::string> pem = fs_.ReadAll(certificate_path);
  if (!pem.ok()) return WithMend(pem.status());
  RIVULET_ASSIGN_OR_RETURN(certificate_, ReadCertificate(*pem, certificate_path));
  if (!certificate_.authority) {
    return FailedPrecondition("'{}' is not an authority's certificate; restore it from a backup", certificate_path);
  }
  const std::string index_path = JoinPath(folder_, kIndexFile);
  StatusOr<std::string> index = fs_.ReadAll(index_path);
  if (absl::IsNotFound(index.status())) {
    return DataLoss("'{}', the record of issued and revoked certificates, is missing; restore it from a backup",
                    index_path);
  }
  if (!index.ok()) return WithMend(index.status());
  RIVULET_ASSIGN_OR_RETURN(rows_, ParseIndex(*index, index_path));
  // A missing or damaged list is made again from the index (Settle).
  const std::string list_path = JoinPath(folder_, kListFile);
  StatusOr<std::string> list = fs_.ReadAll(list_path);
  revocation_list_ = list.ok() ? *std::move(list) : "";
  return absl::OkStatus();
}

Status Authority::ReadAuthorityKey() {
  const std::string path = JoinPath(folder_, kKeyFile);
  if (!fs_.Exists(path)) {
    return FailedPrecondition(
        "the authority's key '{}' is missing, and nothing can be signed without it; restore it from a backup", path);
  }
  StatusOr<std::string> pem = fs_.ReadAll(path);
  if (!pem.ok()) return WithMend(pem.status());
  RIVULET_ASSIGN_OR_RETURN(key_, ReadKey(*pem, path));
  const bool pair = X509_check_private_key(certificate_.x509.get(), key_.get()) == 1;
  if (!pair) {
    (void)OpenSslError("");  // empties its queue
    return FailedPrecondition("the key '{}' is not that of {} beside it; restore both from one backup", path,
                              kCertificateFile);
  }
  return CheckPrivate(path);
}

Revocations Authority::RevokedRows() const {
  Revocations revoked;
  for (const IndexRow& row : rows_)
    if (row.revocation) revoked.emplace(row.serial, *row.revocation);
  return revoked;
}

// Repairs a crash between the index and the list, which follows from it, and removes temporary files of interrupted
// writes (WriteFileAtomically): no other process writes while the lock is held.
Status Authority::Settle() {
  RemoveTemporaries(fs_, folder_, [](std::string_view target) {
    return target == kIndexFile || target == kListFile || target == kCertificateFile;
  });
  const StatusOr<RevocationList> list =
      ReadRevocationList(revocation_list_, JoinPath(folder_, kListFile), certificate_);
  if (list.ok()) list_number_ = list->number;
  if (list.ok() && list->revocations == RevokedRows()) return absl::OkStatus();
  return WriteRevocationList(certificate_);
}

Status Authority::WriteRevocationList(const Certificate& authority) {
  // Higher than any number before, even if the list is lost or this machine's clock is wrong: for a lost list, the
  // index's dates of earlier signings replace its number. A reader refuses a lower one.
  int64_t newest = now();
  for (const IndexRow& row : rows_) {
    newest = std::max(newest, row.validity.from + kBackdated);
    if (row.revocation) newest = std::max(newest, row.revocation->at);
  }
  const int64_t number = std::max(list_number_ + 1, newest + std::ssize(rows_));
  RIVULET_ASSIGN_OR_RETURN(std::string list, SignRevocationList(RevokedRows(), now(), number, authority, key_.get()));
  RIVULET_RETURN_IF_ERROR(WithMend(WriteFileAtomically(private_, JoinPath(folder_, kListFile), list)));
  list_number_ = number;
  revocation_list_ = std::move(list);
  return absl::OkStatus();
}

Status Authority::WriteIndex(std::vector<IndexRow> rows) {
  RIVULET_RETURN_IF_ERROR(WithMend(WriteFileAtomically(private_, JoinPath(folder_, kIndexFile), IndexText(rows))));
  rows_ = std::move(rows);
  return absl::OkStatus();
}

StatusOr<Validity> Authority::ValidityOf(std::optional<int64_t> days) const {
  const int64_t until = certificate_.validity.until;
  const int64_t left = DaysLeft(until, now());
  // Signed by this clock, a certificate might end before the authority's own period begins.
  if (now() < certificate_.validity.from) {
    return FailedPrecondition("the authority '{}' begins on {}, and here it is {}; set the clock", certificate_.subject,
                              DayText(certificate_.validity.from), TimeText(now()));
  }
  if (left < 1) {
    return FailedPrecondition(
        "the authority '{}' ended on {}; renew it ('rivulet ca renew authority') and give its sites the new "
        "certificate",
        certificate_.subject, DayText(until));
  }
  if (days) RIVULET_RETURN_IF_ERROR(CheckDays(*days));
  if (days && *days > left) {
    return InvalidArgument(
        "the authority itself has {} days left, so nothing that it signs is good for {}; give fewer "
        "--days, or renew it first ('rivulet ca renew authority')",
        left, *days);
  }
  return Validity{.from = now() - kBackdated,
                  .until = std::min(until, now() + days.value_or(kCertificateDays) * kSecondsPerDay)};
}

std::vector<const IndexRow*> Authority::ActiveRowsOf(const CertificateName& name) const {
  std::vector<const IndexRow*> active;
  for (const IndexRow& row : rows_)
    if (row.subject.name == name && row.Active(now())) active.push_back(&row);
  return active;
}

StatusOr<const IndexRow*> Authority::LastRowOf(const CertificateName& name) const {
  const IndexRow* last = nullptr;
  std::vector<std::string> known;
  for (const IndexRow& row : rows_) {
    if (row.subject.name == name) last = &row;
    known.push_back(row.subject.name.ToString());
  }
  if (last != nullptr) return last;
  return NotFound("'{}' has no certificate of this authority; 'rivulet ca issue' makes the first one.{}",
                  name.ToString(), DidYouMean(name.ToString(), known));
}

StatusOr<IndexRow> Authority::Issue(const Order& order, Delivery& delivery) {
  const CertificateName& name = order.subject.name;
  RIVULET_RETURN_IF_ERROR(CheckSubject(order.subject));
  RIVULET_RETURN_IF_ERROR(CheckNotCompromised(order.public_key));
  RIVULET_RETURN_IF_ERROR(delivery.CheckFree());
  const std::vector<const IndexRow*> active = ActiveRowsOf(name);
  for (const IndexRow* row : active) {
    if (!delivery.IsStaged(row->serial)) continue;
    RIVULET_RETURN_IF_ERROR(WithMend(delivery.Publish(row->serial)));
    return *row;
  }
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.RemoveStaged()));
  if (!order.renewal && !active.empty()) {
    return AlreadyExists(
        "'{}' has the certificate {}, good until {}; renew it ('rivulet ca renew'), or revoke it first",
        name.ToString(), active.back()->serial, DayText(active.back()->validity.until));
  }
  if (order.renewal) {
    RIVULET_ASSIGN_OR_RETURN(const IndexRow* last, LastRowOf(name));
    if (last->revocation && active.empty()) {
      return FailedPrecondition(
          "the certificate of '{}' was revoked on {} ({}), which a renewal would undo; make a new "
          "one with 'rivulet ca issue'",
          name.ToString(), DayText(last->revocation->at), ReasonText(last->revocation->reason));
    }
  }
  RIVULET_ASSIGN_OR_RETURN(const Validity validity, ValidityOf(order.days));
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           SignSubject(order.subject, order.public_key, validity, certificate_, key_.get()));
  RIVULET_ASSIGN_OR_RETURN(std::string public_key, PublicKeyText(order.public_key));
  IndexRow row{.serial = certificate.serial,
               .subject = {.name = *certificate.name, .hosts = certificate.hosts},
               .validity = certificate.validity,
               .public_key = std::move(public_key)};
  const std::string top = name.FileName().size() <= 150 ? name.FileName() : std::string(name.role->name);
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.Stage(row.serial, order.files(certificate), top, now())));
  std::vector<IndexRow> rows = rows_;
  rows.push_back(row);
  if (const Status written = WriteIndex(std::move(rows)); !written.ok()) {
    // An error may come after the rename that replaced the index. Then the staged files are the only copy of a
    // certificate in the index, and a second call delivers them.
    Authority here(fs_, clock_, folder_);
    const bool known = here.Read().ok() && !here.rows_.empty() && here.rows_.back().serial == row.serial;
    if (!known) delivery.RemoveStaged().IgnoreError();
    return written;
  }
  RIVULET_RETURN_IF_ERROR(WithMend(delivery.Publish(row.serial)));
  return row;
}

StatusOr<std::vector<IndexRow>> Authority::RevokeName(const CertificateName& name, RevocationReason reason) {
  RIVULET_ASSIGN_OR_RETURN(const IndexRow* last, LastRowOf(name));
  std::vector<size_t> chosen;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].subject.name == name && rows_[i].Active(now())) chosen.push_back(i);
  // A key that is found compromised afterwards must not be certified again either.
  const bool compromised = reason == RevocationReason::kKeyCompromise;
  const bool known = last->revocation && last->revocation->reason == reason;
  if (chosen.empty() && compromised && !known) chosen.push_back(static_cast<size_t>(last - rows_.data()));
  if (chosen.empty()) {
    return FailedPrecondition("'{}' has no certificate that is still good: the last one {}", name.ToString(),
                              last->revocation ? fmt::format("was revoked on {}", DayText(last->revocation->at))
                                               : ExpiryText(last->validity, now()));
  }
  return Revoke(chosen, reason);
}

StatusOr<std::vector<IndexRow>> Authority::RevokeSerial(std::string_view serial, RevocationReason reason) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].serial != serial) continue;
    if (rows_[i].revocation && reason != RevocationReason::kKeyCompromise) return std::vector{rows_[i]};
    return Revoke({i}, reason);
  }
  return NotFound("this authority has signed no certificate {}; 'rivulet ca list --all' lists their numbers",
                  DisplayText(serial, 80));
}

StatusOr<std::vector<IndexRow>> Authority::Revoke(const std::vector<size_t>& chosen, RevocationReason reason) {
  std::vector<IndexRow> rows = rows_, revoked;
  std::set<size_t> places(chosen.begin(), chosen.end());
  if (reason == RevocationReason::kKeyCompromise) {
    for (const size_t i : chosen) {
      RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, PublicKeyOf(rows[i].public_key));
      for (size_t other = 0; other < rows.size(); ++other) {
        if (!rows[other].Active(now())) continue;
        RIVULET_ASSIGN_OR_RETURN(const KeyHandle of_other, PublicKeyOf(rows[other].public_key));
        if (SameKeyPair(key.get(), of_other.get())) places.insert(other);
      }
    }
  }
  for (const size_t i : places) {
    rows[i].revocation = Revocation{.at = rows[i].revocation ? rows[i].revocation->at : now(), .reason = reason};
    revoked.push_back(rows[i]);
  }
  RIVULET_RETURN_IF_ERROR(WriteIndex(std::move(rows)));
  RIVULET_RETURN_IF_ERROR(WriteRevocationList(certificate_));
  return revoked;
}

// Compared by key, not by text, which a request can choose.
Status Authority::CheckNotCompromised(EVP_PKEY* public_key) const {
  for (const IndexRow& row : rows_) {
    if (!row.revocation || row.revocation->reason != RevocationReason::kKeyCompromise) continue;
    RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, PublicKeyOf(row.public_key));
    if (!SameKeyPair(key.get(), public_key)) continue;
    return FailedPrecondition(
        "this key was revoked on {} as compromised (certificate {} of '{}'), and its thief could use a new certificate "
        "too; make another key ('rivulet ca request'), or leave out --request",
        DayText(row.revocation->at), row.serial, row.subject.name.ToString());
  }
  return absl::OkStatus();
}

Status Authority::Renew(int days) {
  RIVULET_RETURN_IF_ERROR(CheckDays(days));
  RIVULET_ASSIGN_OR_RETURN(Certificate renewed,
                           SignAuthority(certificate_.subject, key_.get(),
                                         {.from = now() - kBackdated, .until = now() + days * kSecondsPerDay}));
  // The list comes first: it lasts as long as the certificate beside it, and a longer period does no harm.
  RIVULET_RETURN_IF_ERROR(WriteRevocationList(renewed));
  RIVULET_RETURN_IF_ERROR(WithMend(WriteFileAtomically(private_, JoinPath(folder_, kCertificateFile), renewed.Pem())));
  certificate_ = std::move(renewed);
  return absl::OkStatus();
}

}  // namespace rivulet
