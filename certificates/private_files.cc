#include "certificates/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "certificates/archive.h"

namespace rivulet {
namespace {

constexpr std::string_view kStageSuffix = ".part";

std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status MakeExecutable(const std::string& path) {
  if (chmod(path.c_str(), 0700) == 0) return absl::OkStatus();
  return Internal("cannot make '{}' executable: {}", path, std::strerror(errno));
}

// Removes a file, or a folder of files.
Status RemoveWhole(FileSystem& fs, const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return fs.Remove(path);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(path));
  for (const std::string& name : names) RIVULET_RETURN_IF_ERROR(fs.Remove(JoinPath(path, name)));
  if (rmdir(path.c_str()) == 0) return absl::OkStatus();
  return Internal("cannot remove the folder '{}': {}", path, std::strerror(errno));
}

}  // namespace

// The mode is set before the first byte: otherwise a reader could open the file in between, and read later
// bytes.
StatusOr<std::unique_ptr<WritableFile>> PrivateFileSystem::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) {
    (void)fchmod(fd, 0600);
    close(fd);
  }
  return base_.Create(path);  // which reports why the file could not be made
}

Status PrivateFileSystem::CreateFolder(const std::string& folder) {
  RIVULET_RETURN_IF_ERROR(base_.CreateFolder(folder));
  if (chmod(folder.c_str(), 0700) == 0) return absl::OkStatus();
  return Internal("cannot make the folder '{}' private: {}", folder, std::strerror(errno));
}

Status CheckPrivate(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return NotFound("cannot open '{}': {}", path, std::strerror(errno));
  // In containers, secrets are often readable by a group; no service needs them readable by all.
  if ((info.st_mode & 07) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "the key '{}' has the mode {:04o}, so everybody on this machine may read it; chmod 600 it, "
      "and think about whether it is still a secret",
      path, info.st_mode & 07777);
}

Status WithMend(Status status) {
  std::string_view mend;
  if (absl::IsResourceExhausted(status)) mend = "free some space there and call again; nothing is half done";
  if (absl::IsPermissionDenied(status)) mend = "run it as a user with write permission, or with a writable folder";
  if (mend.empty()) return status;
  return Status(status.code(), ToAbsl(fmt::format("{}; {}", Message(status), mend)));
}

Delivery::Delivery(FileSystem& fs, std::string path, Form form)
    : fs_(fs), private_(fs), path_(std::move(path)), form_(form) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

std::string Delivery::StagePath(std::string_view serial) const {
  return fmt::format("{}.{}{}", path_, serial, kStageSuffix);
}

// A dangling link takes the name too: no folder can be renamed to it, and the key made for it would be left
// behind.
bool Delivery::IsTaken() const {
  struct stat info;
  return fs_.Exists(path_) || lstat(path_.c_str(), &info) == 0;
}

Status Delivery::CheckFree() const {
  if (!IsTaken()) return absl::OkStatus();
  return AlreadyExists("'{}' is there already; move it away, or give another --out", path_);
}

Status Delivery::Write(const std::string& path, const DeliveredFile& file, FileSystem& fs) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> out, fs.Create(path));
  RIVULET_RETURN_IF_ERROR(out->Append(file.bytes));
  if (file.executable) RIVULET_RETURN_IF_ERROR(MakeExecutable(path));
  RIVULET_RETURN_IF_ERROR(out->Sync());
  return out->Close();
}

Status Delivery::Stage(std::string_view serial, const std::vector<DeliveredFile>& files, std::string_view top,
                       int64_t seconds) {
  const std::string stage = StagePath(serial);
  const auto write = [&]() -> Status {
    if (form_ == Form::kFile) return Write(stage, files.front(), fs_);
    if (form_ == Form::kArchive) {
      RIVULET_ASSIGN_OR_RETURN(std::string archive, TarGz(top, files, seconds));
      return Write(stage, {.bytes = std::move(archive)}, private_);
    }
    RIVULET_RETURN_IF_ERROR(private_.CreateFolder(stage));
    for (const DeliveredFile& file : files) RIVULET_RETURN_IF_ERROR(Write(JoinPath(stage, file.name), file, private_));
    return private_.SyncFolder(stage);
  };
  Status status = write();
  if (status.ok()) status = fs_.SyncFolder(FolderOf(path_));
  if (!status.ok() && fs_.Exists(stage)) RemoveWhole(fs_, stage).IgnoreError();  // the first error is reported
  return status;
}

bool Delivery::IsStaged(std::string_view serial) const { return fs_.Exists(StagePath(serial)); }

Status Delivery::Publish(std::string_view serial) {
  RIVULET_RETURN_IF_ERROR(CheckFree());
  RIVULET_RETURN_IF_ERROR(fs_.Rename(StagePath(serial), path_));
  return fs_.SyncFolder(FolderOf(path_));
}

Status Delivery::RemoveStaged() {
  StatusOr<std::vector<std::string>> names = fs_.List(FolderOf(path_));
  if (!names.ok()) return names.status();
  const std::string prefix = NameIn(path_) + ".";
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix) || !name.ends_with(kStageSuffix)) continue;
    const std::string_view serial =
        std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - kStageSuffix.size());
    if (serial.size() != 32 || serial.find_first_not_of("0123456789ABCDEF") != std::string_view::npos) continue;
    RIVULET_RETURN_IF_ERROR(RemoveWhole(fs_, JoinPath(FolderOf(path_), name)));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
