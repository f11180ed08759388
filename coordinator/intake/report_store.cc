#include "coordinator/intake/report_store.h"

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "engine/io/sealed_file.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "reports are kept as they lie in memory");

// What stands before the update in its file.
struct Head {
  char magic[8] = {'R', 'V', 'R', 'E', 'P', 'T', '0', '1'};
  std::array<uint8_t, 32> base{};
  double train_seconds = 0;
};
static_assert(sizeof(Head) == 48, "no padding that would be written");

constexpr size_t kDigits = 32;
constexpr std::string_view kFolder = "reports", kEnding = ".report";

}  // namespace

void ReportStore::RemoveAll(FileSystem& fs, const std::string& run_folder) {
  const std::string folder = JoinPath(run_folder, kFolder);
  const auto files = fs.List(folder);
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    if (file.find(kEnding) != file.npos) fs.Remove(JoinPath(folder, file)).IgnoreError();
  }
  std::error_code not_empty;
  std::filesystem::remove(folder, not_empty);
}

ReportStore::ReportStore(FileSystem& fs, const std::string& run_folder)
    : fs_(fs), folder_(JoinPath(run_folder, kFolder)) {
  const auto files = fs_.List(folder_);
  if (!files.ok()) return;
  for (const std::string& file : *files) left_.insert(JoinPath(folder_, file));
}

std::string ReportStore::PathOf(const TaskId& task) const {
  return JoinPath(folder_, Sha256Of(task).Hex().substr(0, kDigits) + std::string(kEnding));
}

Status ReportStore::Keep(const TaskId& task, const Digest& base, double train_seconds, std::string_view update) {
  Head head;
  head.base = base.bytes;
  head.train_seconds = train_seconds;
  return WriteSealedFile(fs_, PathOf(task), {{reinterpret_cast<const char*>(&head), sizeof(head)}, update});
}

StatusOr<KeptReport> ReportStore::Read(const TaskId& task) const {
  RIVULET_ASSIGN_OR_RETURN(std::string file, ReadSealedFile(fs_, PathOf(task)));
  Head head;
  const Head known;
  if (file.size() >= sizeof(head)) std::memcpy(&head, file.data(), sizeof(head));
  if (file.size() < sizeof(head) || std::memcmp(head.magic, known.magic, sizeof(head.magic)) != 0) {
    return DataLoss("'{}' is no report of this program", PathOf(task));
  }
  file.erase(0, sizeof(head));
  return KeptReport{{head.base}, head.train_seconds, std::move(file)};
}

void ReportStore::Remove(const TaskId& task) {
  const std::string path = PathOf(task);
  if (fs_.Exists(path)) fs_.Remove(path).IgnoreError();
}

bool ReportStore::TakeLeft(const TaskId& task) {
  MutexLock lock(mutex_);
  return left_.erase(PathOf(task)) > 0;
}

void ReportStore::RemoveLeft() {
  std::set<std::string> paths;
  {
    MutexLock lock(mutex_);
    paths.swap(left_);
  }
  for (const std::string& path : paths) fs_.Remove(path).IgnoreError();
}

}  // namespace rivulet
