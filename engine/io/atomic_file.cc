#include "engine/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/temporary_name.h"
#include "engine/base/write_target.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

// False: it cannot be created; the later write reports the reason.
bool MakeEmptyPrivate(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return true;
}

}  // namespace

AtomicFile::AtomicFile(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file)
    : fs_(fs), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(FileSystem& fs, const std::string& path) {
  return CreateFor(Readers::kAsTheUmaskSays, fs, path);
}

StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::CreatePrivate(FileSystem& fs, const std::string& path) {
  return CreateFor(Readers::kItsOwner, fs, path);
}

StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::CreateFor(Readers readers, FileSystem& fs, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(WriteTarget target, WriteTargetOf(path));
  // Two writers of one path have two names; the last rename wins whole.
  std::string temporary = target.in_place ? "" : TemporaryNameOf(target.path);
  // Setting the mode of an existing file is too late for processes that have already opened it. An existing file keeps
  // its mode when it is rewritten.
  const bool made = readers == Readers::kItsOwner && !target.in_place && MakeEmptyPrivate(temporary);
  StatusOr<std::unique_ptr<WritableFile>> file = fs.Create(target.in_place ? target.path : temporary);
  if (!file.ok()) {
    if (made) unlink(temporary.c_str());
    return file.status();
  }
  return std::unique_ptr<AtomicFile>(
      new AtomicFile(fs, std::move(target.path), std::move(temporary), *std::move(file)));
}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  file_.reset();
  if (!temporary_.empty() && fs_.Exists(temporary_)) fs_.Remove(temporary_).IgnoreError();
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

Status AtomicFile::Finish() {
  RIVULET_CHECK(file_ != nullptr && !finished_, "Finish twice");
  finished_ = true;
  RIVULET_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

// The order matters. The file is synced before the rename, as otherwise a crash could leave the name on an empty file.
// The folder is synced after it, as otherwise the name could be lost after OK was returned.
Status AtomicFile::Commit() {
  RIVULET_CHECK(file_ != nullptr, "Commit twice");
  if (!finished_) RIVULET_RETURN_IF_ERROR(Finish());
  if (temporary_.empty()) {
    file_.reset();
    return absl::OkStatus();
  }
  RIVULET_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  file_.reset();  // there is no temporary any more
  return fs_.SyncFolder(FolderOf(path_));
}

Status AtomicFile::CommitUnsynced() {
  RIVULET_CHECK(file_ != nullptr && !finished_, "CommitUnsynced after Finish or Commit");
  RIVULET_RETURN_IF_ERROR(file_->Close());
  if (!temporary_.empty()) RIVULET_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  file_.reset();
  return absl::OkStatus();
}

Status WriteFolderAtomically(FileSystem& fs, const std::string& folder, std::span<const NamedBytes> files) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<NewFolder> made, NewFolder::Create(fs, folder));
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const NamedBytes& file : files) {
    RIVULET_ASSIGN_OR_RETURN(written.emplace_back(), AtomicFile::Create(fs, JoinPath(folder, file.name)));
    RIVULET_RETURN_IF_ERROR(written.back()->Append(file.bytes));
    RIVULET_RETURN_IF_ERROR(written.back()->Finish());
  }
  for (const std::unique_ptr<AtomicFile>& file : written) RIVULET_RETURN_IF_ERROR(file->Commit());
  made->Keep();
  return absl::OkStatus();
}

}  // namespace rivulet
