#include "serving/pointed_files.h"

#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "coordinator/history/history.h"

namespace rivulet {
namespace {

constexpr char kVersionEnd[] = ".safetensors";
constexpr char kPlanEnd[] = ".plan";
constexpr std::chrono::seconds kLockWait{20};

}  // namespace

PointedFiles::PointedFiles(FileSystem& fs, const std::string& history)
    : fs_(fs), folder_(JoinPath(FolderOf(history), History::ModelsFolder(history, "pointed"))) {}

std::string PointedFiles::VersionPath(const PointedVersion& version) const {
  return JoinPath(folder_, fmt::format("{}-{:06}-{}{}", version.run_id, version.round, version.digest, kVersionEnd));
}

std::string PointedFiles::PlanPath(const std::string& plan_digest) const {
  return JoinPath(folder_, plan_digest + kPlanEnd);
}

PointedFiles::Found PointedFiles::Find(const PointedVersion& version) const {
  const std::string of_run = JoinPath(FolderOf(folder_), version.run_id);
  const auto choose = [&](std::string here, std::string there) {
    return !fs_.Exists(here) && fs_.Exists(there) ? std::move(there) : std::move(here);
  };
  return {choose(VersionPath(version), JoinPath(of_run, fmt::format("round-{:06}.safetensors", version.round))),
          choose(PlanPath(version.plan_digest), JoinPath(of_run, "plan"))};
}

// A link costs nothing and shares the bytes, which are never changed in place. If the file system has no links, or the
// run's folder is on another one, the bytes are copied.
Status PointedFiles::BringOne(const std::string& from, const std::string& to) {
  if (fs_.Exists(to)) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (!error) return fs_.SyncFolder(folder_);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs_.ReadAll(from));
  return WriteFileAtomically(fs_, to, bytes);
}

Status PointedFiles::Bring(const PointedVersion& version, const std::string& version_path,
                           const std::string& plan_path) {
  RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(folder_));
  RIVULET_RETURN_IF_ERROR(BringOne(plan_path, PlanPath(version.plan_digest)));
  return BringOne(version_path, VersionPath(version));
}

Status PointedFiles::KeepOnly(const std::vector<PointedVersion>& kept) {
  std::set<std::string> names;
  for (const PointedVersion& version : kept) {
    names.insert(VersionPath(version));
    names.insert(PlanPath(version.plan_digest));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> there, fs_.List(folder_));
  for (const std::string& name : there) {
    if (!name.ends_with(kVersionEnd) && !name.ends_with(kPlanEnd)) continue;  // the lock, and foreign files
    const std::string path = JoinPath(folder_, name);
    if (!names.contains(path)) RIVULET_RETURN_IF_ERROR(fs_.Remove(path));
  }
  return absl::OkStatus();
}

StatusOr<std::unique_ptr<FileLock>> PointedFiles::TryLock() {
  RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(folder_));
  return FileLock::Acquire(JoinPath(folder_, "lock"));
}

StatusOr<std::unique_ptr<FileLock>> PointedFiles::Lock() {
  const auto until = std::chrono::steady_clock::now() + kLockWait;
  while (true) {
    auto lock = TryLock();
    if (lock.ok() || !absl::IsUnavailable(lock.status()) || std::chrono::steady_clock::now() > until) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace rivulet
