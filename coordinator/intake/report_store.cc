#include "coordinator/intake/report_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "engine/base/temporary_name.h"
#include "engine/io/sealed_file.h"
#include "federated/tasks/stated_columns.h"
#include "federated/updates/task_records.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "reports are kept as in memory");

// The head before a report's columns and update. Before a partial sum it is followed by eight zero bytes, the length of
// its site's name, and that name.
struct Head {
  char magic[8] = {'R', 'V', 'R', 'E', 'P', 'T', '0', '2'};
  std::array<uint8_t, 32> base{};
};
static_assert(sizeof(Head) == 40, "no padding that would be written");

// Reports of version 0.1 have the seconds of training, a double, in the place of the columns.
constexpr char kEarlierMagic[] = "RVREPT01";
constexpr char kPartialMagic[] = "RVPART01";
constexpr size_t kDigits = 32;
constexpr std::string_view kFolder = "reports", kEnding = ".report", kPartialEnding = ".partial";

Head HeadOf(const Digest& base) {
  Head head;
  head.base = base.bytes;
  return head;
}

Head PartialHeadOf(const Digest& base) {
  Head head = HeadOf(base);
  std::memcpy(head.magic, kPartialMagic, sizeof(head.magic));
  return head;
}

std::string_view BytesOf(const Head& head) { return {reinterpret_cast<const char*>(&head), sizeof(head)}; }

bool HasMagic(std::string_view file, const char* magic) {
  return file.size() >= sizeof(Head) && std::memcmp(file.data(), magic, sizeof(Head::magic)) == 0;
}

KeptReport WithoutHead(std::string_view file) {
  Head head;
  std::memcpy(&head, file.data(), sizeof(head));
  return {.base = {head.base}, .measured = {}, .update = {}};
}

// Removes the training seconds, which follow the head of an earlier report; after a partial sum's head they are 0.
bool TakeSeconds(std::string_view& rest, TaskResult& measured) {
  double seconds = 0;
  if (rest.size() < sizeof(seconds)) return false;
  std::memcpy(&seconds, rest.data(), sizeof(seconds));
  rest.remove_prefix(sizeof(seconds));
  if (seconds > 0) measured.train_seconds = seconds;
  return true;
}

// `file` as a report, or as a partial with its site's name in front.
StatusOr<KeptReport> TakeHead(std::string file, bool is_partial, const std::string& path) {
  const Status foreign = DataLoss("'{}' is no report of this program", path);
  const bool earlier = HasMagic(file, is_partial ? kPartialMagic : kEarlierMagic);
  if (!earlier && (is_partial || !HasMagic(file, Head().magic))) return foreign;
  KeptReport report = WithoutHead(file);
  std::string_view rest = std::string_view(file).substr(sizeof(Head));
  if (!(earlier ? TakeSeconds(rest, report.measured) : TakeStated(rest, report.measured))) return foreign;
  file.erase(0, file.size() - rest.size());
  report.update = std::move(file);
  return report;
}

// Whether a file has exactly these bytes: a report that is recovered from a file is stored again with the same bytes.
bool Holds(FileSystem& fs, const std::string& path, std::initializer_list<std::string_view> pieces) {
  if (!fs.Exists(path)) return false;
  const StatusOr<std::string> file = ReadSealedFile(fs, path);
  if (!file.ok()) return false;
  std::string_view rest = *file;
  for (const std::string_view piece : pieces) {
    if (!rest.starts_with(piece)) return false;
    rest.remove_prefix(piece.size());
  }
  return rest.empty();
}

// Whether PathOf gives such a name, for an update or a partial sum. All others are foreign.
bool IsReport(std::string_view name) {
  const std::string_view ending = name.substr(std::min(name.size(), kDigits));
  return (ending == kEnding || ending == kPartialEnding) &&
         name.substr(0, kDigits).find_first_not_of("0123456789abcdef") == name.npos;
}

struct PartialFile {
  KeptReport report;
  std::string site;
};

StatusOr<PartialFile> ReadPartialFile(FileSystem& fs, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(std::string file, ReadSealedFile(fs, path));
  PartialFile partial;
  RIVULET_ASSIGN_OR_RETURN(partial.report, TakeHead(std::move(file), true, path));
  std::string& bytes = partial.report.update;
  uint32_t length = 0;
  if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  if (bytes.size() < sizeof(length) + length) return DataLoss("'{}' ends in the name of its site", path);
  partial.site = bytes.substr(sizeof(length), length);
  bytes.erase(0, sizeof(length) + length);
  return partial;
}

}  // namespace

void ReportStore::RemoveAll(FileSystem& fs, const std::string& run_folder) {
  const std::string folder = JoinPath(run_folder, kFolder);
  const auto files = fs.List(folder);
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    if (IsReport(WithoutTemporary(file))) fs.Remove(JoinPath(folder, file)).IgnoreError();
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

std::vector<std::string> ReportStore::FindPartials() {
  MutexLock lock(mutex_);
  std::vector<std::string> damaged;
  const auto look = [&](const std::string& path) REQUIRES(mutex_) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const PartialFile file, ReadPartialFile(fs_, path));
    RIVULET_ASSIGN_OR_RETURN(const TaskRecords read,
                             ReadTaskRecords(std::as_bytes(std::span(file.report.update)),
                                             std::numeric_limits<int32_t>::max(), kMostScalars));
    auto partial = std::make_shared<Partial>();
    partial->path = path;
    partial->site = file.site;
    for (const TaskRecord& record : read.records) {
      partial->tasks.push_back(record.task);
      partial->awaited.insert(record.task);
    }
    Index(std::move(partial));
    return absl::OkStatus();
  };
  for (auto path = left_.begin(); path != left_.end();) {
    const Status found = path->ends_with(kPartialEnding) ? look(*path) : absl::OkStatus();
    if (found.ok()) {
      ++path;
      continue;
    }
    damaged.emplace_back(Message(found));
    fs_.Remove(*path).IgnoreError();
    path = left_.erase(path);
  }
  return damaged;
}

std::string ReportStore::PathOf(const TaskId& task) const {
  return JoinPath(folder_, Sha256Of(task).Hex().substr(0, kDigits) + std::string(kEnding));
}

// The first file creates the folder, on which others may rely only once it is durable in its parent. A file that exists
// needs no room, even on a full disk; but the process that renamed it may not have synced that.
Status ReportStore::Write(const std::string& path, std::initializer_list<std::string_view> pieces) {
  if (Holds(fs_, path, pieces)) return fs_.SyncFolder(folder_);
  {
    MutexLock lock(folder_mutex_);
    if (!folder_made_) {
      RIVULET_RETURN_IF_ERROR(WriteSealedFile(fs_, path, pieces));
      folder_made_ = true;
      return absl::OkStatus();
    }
  }
  return WriteSealedFile(fs_, path, pieces);
}

Status ReportStore::Keep(const TaskId& task, const Digest& base, const TaskResult& measured, std::string_view update) {
  const Head head = HeadOf(base);
  const std::string columns = PackStated(measured);
  return Write(PathOf(task), {BytesOf(head), columns, update});
}

StatusOr<KeptPartial> ReportStore::KeepPartial(const std::string& site, std::span<const TaskId> tasks,
                                               const Digest& base, std::string_view partial) {
  auto kept = std::make_shared<Partial>();
  kept->site = site;
  kept->tasks.assign(tasks.begin(), tasks.end());
  std::ranges::sort(kept->tasks);
  Sha256 names;
  for (const TaskId& task : kept->tasks) names.UpdateU64(task.size()).Update(task);
  kept->path = JoinPath(folder_, std::move(names).Finish().Hex().substr(0, kDigits) + std::string(kPartialEnding));
  const Head head = PartialHeadOf(base);
  const auto length = static_cast<uint32_t>(site.size());
  const std::string_view length_bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  const std::string no_seconds(sizeof(double), '\0');
  RIVULET_RETURN_IF_ERROR(Write(kept->path, {BytesOf(head), no_seconds, length_bytes, site, partial}));
  MutexLock lock(mutex_);
  KeptPartial known = *kept;
  Index(std::move(kept));
  return known;
}

void ReportStore::Index(std::shared_ptr<Partial> partial) {
  for (const TaskId& task : partial->tasks) partials_.insert_or_assign(task, partial);
}

StatusOr<KeptReport> ReportStore::Read(const TaskId& task) const {
  const std::string path = PathOf(task);
  RIVULET_ASSIGN_OR_RETURN(std::string file, ReadSealedFile(fs_, path));
  return TakeHead(std::move(file), false, path);
}

StatusOr<KeptReport> ReportStore::Read(const KeptPartial& partial) const {
  RIVULET_ASSIGN_OR_RETURN(PartialFile file, ReadPartialFile(fs_, partial.path));
  return std::move(file.report);
}

void ReportStore::Remove(const TaskId& task) {
  const std::string path = PathOf(task);
  if (fs_.Exists(path)) fs_.Remove(path).IgnoreError();
  std::shared_ptr<Partial> partial;
  {
    MutexLock lock(mutex_);
    if (const auto found = partials_.find(task); found != partials_.end()) partial = found->second;
  }
  if (partial != nullptr) Remove(*partial);
}

void ReportStore::Remove(const KeptPartial& partial) {
  {
    MutexLock lock(mutex_);
    std::erase_if(partials_, [&](const auto& of) { return of.second->path == partial.path; });
    left_.erase(partial.path);
  }
  fs_.Remove(partial.path).IgnoreError();
}

bool ReportStore::TakeLeft(const TaskId& task) {
  MutexLock lock(mutex_);
  return left_.erase(PathOf(task)) > 0;
}

std::optional<KeptPartial> ReportStore::TakeLeftPartial(const TaskId& task) {
  MutexLock lock(mutex_);
  const auto found = partials_.find(task);
  if (found == partials_.end() || found->second->awaited.erase(task) == 0) return std::nullopt;
  const Partial& partial = *found->second;
  if (!partial.awaited.empty() || left_.erase(partial.path) == 0) return std::nullopt;
  return partial;
}

void ReportStore::RemoveLeft() {
  std::set<std::string> paths;
  {
    MutexLock lock(mutex_);
    paths.swap(left_);
    std::erase_if(partials_, [&](const auto& of) { return paths.contains(of.second->path); });
  }
  for (const std::string& path : paths) fs_.Remove(path).IgnoreError();
}

}  // namespace rivulet
