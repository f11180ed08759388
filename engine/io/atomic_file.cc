#include "engine/io/atomic_file.h"

#include <unistd.h>

#include <atomic>

#include "engine/base/check.h"

namespace rivulet {

AtomicFile::AtomicFile(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file)
    : fs_(fs), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(FileSystem& fs, const std::string& path) {
  // Two writers of one path are kept apart; the last rename wins whole.
  static std::atomic<uint64_t> serial{0};
  std::string temporary = fmt::format("{}.tmp-{}-{}", path, getpid(), serial.fetch_add(1));
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(temporary));
  return std::unique_ptr<AtomicFile>(new AtomicFile(fs, path, std::move(temporary), std::move(file)));
}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  file_.reset();
  if (fs_.Exists(temporary_)) fs_.Remove(temporary_).IgnoreError();
}

Status AtomicFile::Append(std::string_view bytes) {
  return Append(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

Status AtomicFile::Append(std::span<const std::byte> bytes) {
  RIVULET_CHECK(file_ != nullptr, "Append after Commit");
  if (bytes.empty()) return absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(file_->Append(bytes));
  size_ += bytes.size();
  return absl::OkStatus();
}

// The order is the point. Synced before it is renamed, or a crash could leave the name on an empty file; the folder
// synced after, or the name itself could be lost although the caller was told that the file is there.
Status AtomicFile::Commit() {
  RIVULET_CHECK(file_ != nullptr, "Commit twice");
  RIVULET_RETURN_IF_ERROR(file_->Sync());
  RIVULET_RETURN_IF_ERROR(file_->Close());
  RIVULET_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  file_.reset();  // there is no temporary any more
  return fs_.SyncFolder(FolderOf(path_));
}

}  // namespace rivulet
