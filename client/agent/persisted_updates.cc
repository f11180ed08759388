#include "client/agent/persisted_updates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "client/training/file_name.h"
#include "client/training/task_work.h"
#include "engine/base/temporary_name.h"
#include "federated/tasks/stated_columns.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "finished work is kept as it is in memory");

// The head of the file, before the result's columns and the update.
struct Head {
  char magic[8] = {'R', 'V', 'H', 'E', 'L', 'D', '0', '2'};
  std::array<uint8_t, 32> work{};
};
static_assert(sizeof(Head) == 40, "no padding that would be written");

// Instead of the columns, in files of version 0.1. An unknown number is -1, NaN or 0.
constexpr char kEarlierMagic[] = "RVHELD01";
struct EarlierNumbers {
  int64_t examples = 0, steps = 0;
  double train_loss = 0, train_seconds = 0;
};
static_assert(sizeof(EarlierNumbers) == 32);

bool TakeEarlier(std::string_view& bytes, TaskResult& result) {
  EarlierNumbers numbers;
  if (bytes.size() < sizeof(numbers)) return false;
  std::memcpy(&numbers, bytes.data(), sizeof(numbers));
  bytes.remove_prefix(sizeof(numbers));
  if (numbers.examples >= 0) result.examples = numbers.examples;
  if (numbers.steps >= 0) result.steps = numbers.steps;
  if (!std::isnan(numbers.train_loss)) result.train_loss = numbers.train_loss;
  if (numbers.train_seconds > 0) result.train_seconds = numbers.train_seconds;
  return true;
}

constexpr std::string_view kClientInName = "update";

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// The task of a file made by this class, for the run with these digits; other files in a client's folder are foreign.
std::optional<TaskName> UpdateOf(std::string_view file, std::string_view run_digits) {
  std::optional<TaskName> name = TaskNameOf(file, run_digits);
  if (name && name->client_id != kClientInName) name.reset();
  return name;
}
bool IsUpdate(std::string_view file) { return UpdateOf(file, file.substr(0, kFileNameDigits)).has_value(); }

void RemoveHalfWrittenOf(FileSystem& fs, const std::string& folder) { RemoveTemporaries(fs, folder, IsUpdate); }

// Removes from one client's folder the files of a run up to round `last`.
void RemoveOf(FileSystem& fs, const std::string& folder, std::string_view run_digits, int64_t last) {
  const auto files = fs.List(folder);
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    const std::optional<TaskName> name = UpdateOf(file, run_digits);
    // A file that cannot be removed now is removed with the next.
    if (name && name->round <= last) fs.Remove(JoinPath(folder, file)).IgnoreError();
  }
}

}  // namespace

PersistedUpdates::PersistedUpdates(FileSystem& fs, const std::string& folder, std::string client_id, Options options)
    : fs_(fs),
      folder_(JoinPath(folder, FileNameOf(client_id))),
      client_id_(std::move(client_id)),
      options_(std::move(options)) {
  if (!options_.shared) RemoveHalfWrittenOf(fs_, folder_);
}

// The run's id is the text before the rest of a task's name. A client whose name resembles the rest of one harms only
// itself.
std::optional<PersistedUpdates::Place> PersistedUpdates::PlaceOf(const TaskId& task) const {
  for (size_t end = task.find("-r"); end != task.npos; end = task.find("-r", end + 1)) {
    const std::string_view run = std::string_view(task).substr(0, end);
    std::optional<TaskName> name = TaskNameOf(task, run);
    if (!name || name->client_id != client_id_) continue;
    Place place{FileNameOf(run), *name, ""};
    name->client_id = kClientInName;
    place.path = JoinPath(folder_, TaskIdOf(place.run, *name));
    return place;
  }
  return std::nullopt;
}

// A sync waits for the disk, one to ten milliseconds, and a round of small models takes little longer. It would save
// only the training, since the task is offered again; so it is done if training costs more. Other noise would be a
// second look at the same data, so work that is not repeatable is always synced.
void PersistedUpdates::Keep(const Task& task, const FinishedWork& work, bool repeatable) {
  const std::optional<Place> place = PlaceOf(task.id);
  if (!place) return;
  const auto lost = [&](std::string_view why) {
    if (std::exchange(said_lost_, true)) return;
    Say(fmt::format(
        "the finished update of round {} is not kept on disk: {}; it is sent from memory, and trained again "
        "if this process ends before",
        place->name.round, why));
  };
  if (!MakeRoom(std::ssize(work.update))) {
    return lost(fmt::format("it has {:.1f} MB, and --hold-megabytes allows {:.1f}",
                            static_cast<double>(work.update.size()) / 1e6,
                            static_cast<double>(options_.max_bytes) / 1e6));
  }
  const bool cheap = repeatable && work.train_seconds.value_or(0) < options_.unsynced_seconds;
  const Status kept = Write(*place, task, work, work.update, cheap ? Survives::kProcess : Survives::kPowerFailure);
  if (!kept.ok()) return lost(Message(kept));
  said_lost_ = false;
}

Status PersistedUpdates::KeepSent(const Task& task, std::string_view update, const TaskResult& measured) {
  const std::optional<Place> place = PlaceOf(task.id);
  if (!place) return InvalidArgument("task '{}' is not one of client '{}'", task.id, client_id_);
  return Write(*place, task, measured, update, Survives::kPowerFailure);
}

bool PersistedUpdates::Has(const TaskId& task) const {
  const std::optional<Place> place = PlaceOf(task);
  return place && fs_.Exists(place->path);
}

Status PersistedUpdates::Write(const Place& place, const Task& task, const TaskResult& numbers, std::string_view update,
                               Survives survives) {
  Head head;
  head.work = WorkOf(task).bytes;
  const std::string columns = PackStated(numbers);
  return WriteSealedFile(fs_, place.path, {{reinterpret_cast<const char*>(&head), sizeof(head)}, columns, update},
                         survives);
}

std::optional<FinishedWork> PersistedUpdates::Find(const Task& task) {
  const std::optional<Place> place = PlaceOf(task.id);
  if (!place || !fs_.Exists(place->path)) return std::nullopt;
  StatusOr<std::string> file = ReadSealedFile(fs_, place->path);
  Head head;
  FinishedWork work;
  const auto is = [&](const char* magic) { return std::memcmp(head.magic, magic, sizeof(head.magic)) == 0; };
  std::string_view rest;
  bool ours = file.ok() && file->size() >= sizeof(head);
  if (ours) {
    std::memcpy(&head, file->data(), sizeof(head));
    rest = std::string_view(*file).substr(sizeof(head));
    ours = is(kEarlierMagic) ? TakeEarlier(rest, work) : is(Head().magic) && TakeStated(rest, work);
  }
  if (!ours) {
    Drop(task.id, file.ok() ? "it is of another program" : Message(file.status()));
    return std::nullopt;
  }
  if (head.work != WorkOf(task).bytes) {
    Drop(task.id, "the task is another by now, from another model");
    return std::nullopt;
  }
  file->erase(0, file->size() - rest.size());
  work.update = *std::move(file);
  return work;
}

void PersistedUpdates::Drop(const TaskId& task, std::string_view reason) {
  const std::optional<Place> place = PlaceOf(task);
  if (!place || !fs_.Exists(place->path)) return;
  Say(fmt::format("the finished update of round {} is dropped: {}", place->name.round, reason));
  if (const Status removed = fs_.Remove(place->path); !removed.ok()) Say(std::string(Message(removed)));
}

void PersistedUpdates::Settle(const TaskOutcome& outcome) {
  if (settled_ && settled_->task == outcome.task && settled_->end == outcome.end &&
      settled_->durable == outcome.durable) {
    return;
  }
  settled_ = outcome;
  if (outcome.end != TaskEnd::kFolded) {
    Drop(outcome.task, outcome.reason);
  } else if (const auto place = PlaceOf(outcome.task); place && outcome.durable) {
    Remove(place->run, place->name.round);
  }
}

void PersistedUpdates::RunIsOver(std::string_view run_id) {
  Remove(FileNameOf(run_id), std::numeric_limits<int64_t>::max());
}

void PersistedUpdates::RunIsOver(FileSystem& fs, const std::string& folder, std::string_view run_id) {
  const auto clients = fs.List(folder);
  if (!clients.ok()) return;
  for (const std::string& client : *clients) {
    RemoveOf(fs, JoinPath(folder, client), FileNameOf(run_id), std::numeric_limits<int64_t>::max());
  }
}

void PersistedUpdates::RemoveHalfWritten(FileSystem& fs, const std::string& folder) {
  const auto clients = fs.List(folder);
  if (!clients.ok()) return;
  for (const std::string& client : *clients) RemoveHalfWrittenOf(fs, JoinPath(folder, client));
}

void PersistedUpdates::Remove(std::string_view run_digits, int64_t last) { RemoveOf(fs_, folder_, run_digits, last); }

// By age, not by round: the files may be of several runs, and some of ended runs may be left.
bool PersistedUpdates::MakeRoom(int64_t bytes) {
  struct Held {
    std::filesystem::file_time_type written;
    std::string path;
    int64_t bytes;
  };
  if (bytes > options_.max_bytes) return false;
  std::vector<Held> all;
  int64_t sum = bytes;
  const auto files = fs_.List(folder_);
  for (size_t i = 0; files.ok() && i < files->size(); ++i) {
    if (!IsUpdate(WithoutTemporary((*files)[i]))) continue;
    const std::string path = JoinPath(folder_, (*files)[i]);
    std::error_code error;
    all.push_back({std::filesystem::last_write_time(path, error), path, SizeOf(path)});
    sum += all.back().bytes;
  }
  std::ranges::sort(all, {}, &Held::written);
  for (const Held& oldest : all) {
    if (sum <= options_.max_bytes) break;
    Say(fmt::format(
        "finished updates take {:.1f} MB, and --hold-megabytes allows {:.1f}; the oldest is dropped, which is "
        "in no durable version yet",
        static_cast<double>(sum) / 1e6, static_cast<double>(options_.max_bytes) / 1e6));
    if (!fs_.Remove(oldest.path).ok()) return false;
    sum -= oldest.bytes;
  }
  return true;
}

void PersistedUpdates::Say(const std::string& sentence) const {
  if (options_.on_note) options_.on_note(sentence);
}

}  // namespace rivulet
