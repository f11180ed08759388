#include "certificates/watched_identity.h"

#include "certificates/kit.h"

namespace rivulet {
namespace {

constexpr std::string_view kSettling = " ";  // a fault that may be an incomplete copy: not reported yet

// The bytes of an identity's files. Bytes are compared, not times: a file may be replaced twice in one tick of a file
// system's clock, and the four files have a few kilobytes.
std::string BytesOfFolder(FileSystem& fs, const std::string& folder) {
  std::string bytes;
  for (const std::string_view name : {kNodeCertificate, kNodeKey, kAuthorityCertificate, kRevokedList}) {
    const StatusOr<std::string> file = fs.ReadAll(JoinPath(folder, name));
    bytes += file.ok() ? *file : std::string(Message(file.status()));
    bytes += '\0';
  }
  return bytes;
}

}  // namespace

StatusOr<std::unique_ptr<WatchedIdentity>> WatchedIdentity::Open(FileSystem& fs, const Clock& clock,
                                                                 const std::string& folder, WatchOptions options) {
  auto watched = std::unique_ptr<WatchedIdentity>(new WatchedIdentity(fs, clock, folder, std::move(options)));
  MutexLock lock(watched->mutex_);
  watched->bytes_ = BytesOfFolder(fs, folder);
  RIVULET_RETURN_IF_ERROR(watched->Read());
  watched->looked_ = clock.Now();
  watched->Tell(watched->told_list_, watched->record_.fault());
  watched->TellState();
  return watched;
}

std::shared_ptr<const NodeIdentity> WatchedIdentity::Current() {
  MutexLock lock(mutex_);
  if (clock_.Now() - looked_ >= options_.look_every_ms) LookLocked();
  return identity_;
}

std::shared_ptr<const NodeIdentity> WatchedIdentity::Look() {
  MutexLock lock(mutex_);
  LookLocked();
  return identity_;
}

Status WatchedIdentity::Read() {
  RIVULET_ASSIGN_OR_RETURN(NodeIdentity fresh, LoadIdentity(fs_, clock_, folder_, &record_));
  if (identity_ != nullptr && !(identity_->name == fresh.name)) {
    return FailedPrecondition("'{}' is now of '{}', and this is '{}'; start again to be another",
                              JoinPath(folder_, kNodeCertificate), fresh.name.ToString(), identity_->name.ToString());
  }
  identity_ = std::make_shared<const NodeIdentity>(std::move(fresh));
  return absl::OkStatus();
}

// A file that is being copied is seen incomplete; the next check sees all of it. So a fault is reported once the same
// bytes were seen twice.
void WatchedIdentity::LookLocked() {
  looked_ = clock_.Now();
  std::string bytes = BytesOfFolder(fs_, folder_);
  const bool changed = bytes != bytes_;
  if (changed || !told_fault_.empty()) {
    bytes_ = std::move(bytes);
    const std::string serial = identity_->serial;
    const Status status = Read();
    if (!status.ok()) {
      if (changed) {
        told_fault_ = kSettling;
      } else {
        Tell(told_fault_,
             fmt::format("the certificates could not be read again, and the earlier ones stay in force: {}",
                         Message(status)));
      }
      return;
    }
    told_fault_.clear();
    if (changed && options_.tell && identity_->serial != serial) {
      options_.tell(fmt::format("the certificate of '{}' was replaced: {}, {}", identity_->name.ToString(),
                                identity_->serial, ExpiryText(identity_->validity, now())));
    } else if (changed && options_.tell && record_.fault().empty()) {
      options_.tell(fmt::format("the certificates in '{}' were read again", folder_));
    }
  }
  if (changed && !record_.fault().empty()) {
    told_list_ = kSettling;
  } else {
    Tell(told_list_, record_.fault());
  }
  TellState();
}

void WatchedIdentity::TellState() {
  Tell(told_not_kept_, record_.not_kept());
  Tell(told_list_expiry_, ListExpiryWarning(*identity_, now()));
  Tell(told_expiry_, ExpiryWarning(*identity_, now()));
}

std::vector<std::string> WatchedIdentity::Warnings() {
  MutexLock lock(mutex_);
  if (clock_.Now() - looked_ >= options_.look_every_ms) LookLocked();
  std::vector<std::string> warnings;
  for (const std::string* told : {&told_list_, &told_list_expiry_, &told_not_kept_, &told_fault_, &told_expiry_})
    if (!told->empty() && *told != kSettling) warnings.push_back(*told);
  return warnings;
}

void WatchedIdentity::Tell(std::string& last, std::string sentence) {
  if (last == sentence) return;
  last = std::move(sentence);
  if (options_.tell && !last.empty()) options_.tell(last);
}

}  // namespace rivulet
