// What a process finds that another one has left, and may have been put there by anybody: histories, sealed files,
// invitations.
#include <unistd.h>

#include <filesystem>

#include "coordinator/history/database.h"
#include "coordinator/history/history.h"
#include "engine/base/sha256.h"
#include "engine/io/crc32c.h"
#include "engine/io/sealed_file.h"
#include "simulations/launchers/invitation.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

// SQLite keeps files beside its own, so that this one lies in a folder.
class HistoryFile {
 public:
  HistoryFile() : folder_(std::filesystem::temp_directory_path() / fmt::format("rivulet-fuzz-{}.history", getpid())) {
    Empty();
    std::filesystem::create_directory(folder_);
  }
  ~HistoryFile() { Empty(); }
  const std::string& Fresh() {
    Empty();
    std::filesystem::create_directory(folder_);
    return path_;
  }

 private:
  void Empty() {
    std::error_code none;
    std::filesystem::remove_all(folder_, none);
  }
  const std::string folder_, path_ = folder_ + "/h.sqlite";
};

HistoryFile& File() {
  static HistoryFile file;
  return file;
}

std::string SomeHistory() {
  const std::string& path = File().Fresh();
  {
    const auto history = History::Open(path, History::Access::kReadWrite).value();
    RunRow run;
    run.run_id = run.name = "r";
    run.status = "finished";
    run.config = "[run]\n";
    run.plan_digest = Sha256Of("plan").Hex();
    run.version = "1";
    run.created_at = run.started_at = Iso8601(0);
    const EventRow event{.run_id = "r", .at = Iso8601(1), .level = "info", .source = "run", .message = "begins"};
    RIVULET_CHECK(history->AddRun(run, {"r", 0, Sha256Of("0").Hex(), "", 1, 1}, std::span(&event, 1)).ok(), "a run");
  }
  {
    const auto db = Database::Open(path, Database::Access::kReadWrite).value();
    RIVULET_CHECK(db->Script("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM").ok(), "small pages");
  }
  return FileSystem::Default().ReadAll(path).value();
}

// As the commands that show runs read it.
bool ReadsHistory(std::string_view bytes) {
  if (bytes.size() < 512) return false;  // an empty file is waited for
  const std::string& path = File().Fresh();
  if (!WriteFileAtomically(FileSystem::Default(), path, bytes).ok()) return false;
  const auto history = History::Open(path, History::Access::kReadOnly);
  if (!history.ok()) return false;
  const auto runs = (*history)->Runs();
  if (!runs.ok()) return false;
  for (const RunRow& run : *runs) {
    (*history)->Rounds(run.run_id).IgnoreError();
    (*history)->Metrics(run.run_id).IgnoreError();
    (*history)->Events(run.run_id).IgnoreError();
    (*history)->Models(run.run_id).IgnoreError();
  }
  return (*history)->RunSummaries().ok();
}

const Registered history{{"history", ReadsHistory, [] { return std::vector{SomeHistory()}; }}};

// The checksum at the end is made right, so that what reads the pieces is tried.
const Registered sealed_file{{"sealed_file",
                              [](std::string_view input) {
                                std::string bytes(input);
                                const uint32_t crc = Crc32c(bytes);
                                bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
                                if (ReadSealedFile(FileSystem::Default(), FileOf(bytes)).value() != input) std::abort();
                                return !ReadSealedFile(FileSystem::Default(), FileOf(input)).ok();
                              },
                              [] {
                                return std::vector<std::string>{"pieces", std::string(100, '\0')};
                              }}};

const Registered invitation{
    {"invitation",
     [](std::string_view bytes) {
       const auto read = Invitation::FromBytes(bytes);
       if (!read.ok()) return false;
       if (read->ToBytes() != bytes) std::abort();
       return true;
     },
     [] { return std::vector{Invitation{.run_id = "r-1", .fingerprint = "0f", .scenario = "[run]\n"}.ToBytes()}; }}};

}  // namespace
}  // namespace rivulet::fuzz
