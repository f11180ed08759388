#include "federated/states/state_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "engine/base/sha256.h"
#include "engine/base/temporary_name.h"
#include "federated/states/state_blob.h"

namespace rivulet {
namespace {

constexpr size_t kFolderDigits = 4, kNameDigits = 20;
constexpr std::string_view kClientInName = "state";
constexpr char kStates[] = "state";  // the folder of states in a run's folder

// Later tasks of a client compare greater.
auto OrderOf(const TaskName& task) { return std::tuple(task.round, task.attempt, task.ordinal); }

// The task's id, with the client's digits in place of the run's.
std::string FileNameOf(std::string_view client, TaskName task) {
  task.client_id = kClientInName;
  return TaskIdOf(client, task);
}

// Checks `run_id`, which a coordinator sends, because it becomes a folder's name.
Status CheckFolderName(std::string_view run_id) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  if (!run_id.empty() && run_id.size() <= 200 && run_id[0] != '.' && std::ranges::all_of(run_id, plain)) {
    return absl::OkStatus();
  }
  return InvalidArgument("'{}' is no id of a run that a client's state can be kept for", run_id.substr(0, 200));
}

// File names depend on run, client and task alone. So nothing has to be remembered or read at start-up, and a new
// process finds its predecessor's files.
class FileStateStore : public ClientStateStore {
 public:
  FileStateStore(FileSystem& fs, std::string folder, bool sync) : fs_(fs), folder_(std::move(folder)), sync_(sync) {}

  StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) override {
    if (state_of.empty()) return StateBlob();
    RIVULET_ASSIGN_OR_RETURN(const Place place, PlaceOf(run_id, client_id, state_of));
    StatusOr<std::string> blob = fs_.ReadAll(place.path());
    if (absl::IsNotFound(blob.status()) || (blob.ok() && !IsWholeState(*blob))) {
      return NotFound("the state of client '{}' from task '{}' is {}; it starts again without state", client_id,
                      state_of, blob.ok() ? "damaged" : "not there");
    }
    return blob;
  }

  Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) override {
    RIVULET_ASSIGN_OR_RETURN(const Place place, PlaceOf(run_id, client_id, task));
    Status status = Write(place.path(), state);
    if (absl::IsNotFound(status)) {
      RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(place.folder));
      status = Write(place.path(), state);
    }
    return Annotate(status, fmt::format("the state of client '{}'", client_id));
  }

  // Deletes all earlier proposals, not only the last: a process that died may have left several. Files that cannot be
  // deleted now are deleted next time.
  void Durable(std::string_view run_id, std::string_view client_id, const TaskId& task) override {
    const StatusOr<Place> place = PlaceOf(run_id, client_id, task);
    const StatusOr<std::vector<std::string>> files = place.ok() ? fs_.List(place->folder) : place.status();
    if (!files.ok()) return;
    for (const std::string& file : *files) {
      const std::optional<TaskName> other = TaskNameOf(WithoutTemporary(file), place->client);
      if (other && other->client_id == kClientInName && OrderOf(*other) < OrderOf(place->task))
        fs_.Remove(JoinPath(place->folder, file)).IgnoreError();
    }
  }

  void Forget(std::string_view run_id, std::string_view client_id, const TaskId& task) override {
    const StatusOr<Place> place = PlaceOf(run_id, client_id, task);
    if (place.ok() && fs_.Exists(place->path())) fs_.Remove(place->path()).IgnoreError();
  }

 private:
  struct Place {
    std::string folder, client;  // `client`: its digits
    TaskName task;
    std::string path() const { return JoinPath(folder, FileNameOf(client, task)); }
  };

  StatusOr<Place> PlaceOf(std::string_view run_id, std::string_view client_id, const TaskId& task) const {
    RIVULET_RETURN_IF_ERROR(CheckFolderName(run_id));
    const std::optional<TaskName> name = TaskNameOf(task, run_id);
    if (!name || name->client_id != client_id) {
      return InvalidArgument("'{}' is no task of client '{}' in run '{}'", task, client_id, run_id);
    }
    const std::string digits = Sha256Of(client_id).Hex();
    return Place{JoinPath(JoinPath(JoinPath(folder_, run_id), kStates), digits.substr(0, kFolderDigits)),
                 digits.substr(kFolderDigits, kNameDigits), *name};
  }

  Status Write(const std::string& path, std::string_view bytes) const {
    if (sync_) return WriteFileAtomically(fs_, path, bytes);
    const std::string temporary = TemporaryNameOf(path);
    const auto write = [&]() -> Status {
      RIVULET_ASSIGN_OR_RETURN(const auto file, fs_.Create(temporary));
      RIVULET_RETURN_IF_ERROR(file->Append(bytes));
      RIVULET_RETURN_IF_ERROR(file->Close());
      return fs_.Rename(temporary, path);
    };
    const Status status = write();
    if (!status.ok() && fs_.Exists(temporary)) fs_.Remove(temporary).IgnoreError();
    return status;
  }

  FileSystem& fs_;
  const std::string folder_;
  const bool sync_;
};

}  // namespace

std::unique_ptr<ClientStateStore> NewStateStore(FileSystem& fs, std::string folder, bool sync) {
  return std::make_unique<FileStateStore>(fs, std::move(folder), sync);
}

void RemoveStates(FileSystem& fs, const std::string& run_folder) {
  const std::string states = JoinPath(run_folder, kStates);
  const StatusOr<std::vector<std::string>> folders = fs.List(states);
  if (!folders.ok()) return;
  std::error_code not_empty;
  for (const std::string& digits : *folders) {
    const std::string folder = JoinPath(states, digits);
    const StatusOr<std::vector<std::string>> files = fs.List(folder);
    if (digits.size() != kFolderDigits || !files.ok()) continue;
    for (const std::string& file : *files) {
      const std::string_view name = WithoutTemporary(file);
      const std::optional<TaskName> task = TaskNameOf(name, name.substr(0, kNameDigits));
      if (task && task->client_id == kClientInName) fs.Remove(JoinPath(folder, file)).IgnoreError();
    }
    std::filesystem::remove(folder, not_empty);
  }
  std::filesystem::remove(states, not_empty);
}

}  // namespace rivulet
