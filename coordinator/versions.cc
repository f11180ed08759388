#include "coordinator/versions.h"

#include <span>
#include <utility>

namespace rivulet {
namespace {

Blob ModelBytes(const ServedVersion& version) {
  if (version.encoded == nullptr) {
    return {version.file->bytes(), [file = version.file](int64_t from) { return file->At(from); }};
  }
  return {std::ssize(*version.encoded), [bytes = version.encoded](int64_t from) {
            return std::as_bytes(std::span(*bytes)).subspan(static_cast<size_t>(from));
          }};
}

std::optional<Blob> BytesOf(const ServedVersion& version, const BlobId& blob) {
  if (blob == BlobId{BlobId::Form::kModel, version.sent_digest}) return ModelBytes(version);
  for (const auto& [name, digest] : version.broadcasts) {
    if (blob != BlobId{BlobId::Form::kBytes, digest}) continue;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(version.broadcast(name)));
    return Blob{std::ssize(bytes),
                [flats = version.flats, bytes](int64_t from) { return bytes.subspan(static_cast<size_t>(from)); }};
  }
  return std::nullopt;
}

}  // namespace

Versions::Versions(ServedVersion current, std::vector<ServedVersion> earlier)
    : current_(std::make_shared<const ServedVersion>(std::move(current))) {
  for (ServedVersion& version : earlier) {
    const int64_t round = version.row.round;
    earlier_.emplace(round, std::make_shared<const ServedVersion>(std::move(version)));
  }
}

Versions::Version Versions::current() const {
  MutexLock lock(mutex_);
  return current_;
}

Versions::Version Versions::Of(int64_t round) const {
  MutexLock lock(mutex_);
  if (current_->row.round == round) return current_;
  const auto found = earlier_.find(round);
  return found == earlier_.end() ? nullptr : found->second;
}

Versions::Version Versions::Find(const Digest& sent) const {
  MutexLock lock(mutex_);
  if (current_->sent_digest == sent) return current_;
  for (const auto& [round, version] : earlier_) {
    if (version->sent_digest == sent) return version;
  }
  return nullptr;
}

std::optional<Blob> Versions::Read(const BlobId& blob) const {
  MutexLock lock(mutex_);
  if (auto bytes = BytesOf(*current_, blob)) return bytes;
  for (const auto& [round, version] : earlier_) {
    if (auto bytes = BytesOf(*version, blob)) return bytes;
  }
  return std::nullopt;
}

void Versions::SetCurrent(ServedVersion version, bool keeps) {
  auto made = std::make_shared<const ServedVersion>(std::move(version));
  MutexLock lock(mutex_);
  if (keeps) earlier_.emplace(current_->row.round, current_);
  current_ = std::move(made);
}

void Versions::Keep(const std::function<bool(int64_t round)>& needed) {
  MutexLock lock(mutex_);
  std::erase_if(earlier_, [&](const auto& version) { return !needed(version.first); });
}

}  // namespace rivulet
