// One client's trained updates on disk, from before they are sent until their outcome is durable. A crash of the client
// after its training, or of a coordinator after its acknowledgement, costs no training. The task is offered again under
// its name, and its update is sent from disk.
//
//   trained ──→ Keep ──→ sent ──→ acknowledged ──→ Settle: durable ──→ removed
//                 ↑________ offered again: Find ________│
//
// One file each, <folder>/<24 digits of the client's name>/<24 digits of the run's
// id>-r<round>-a<attempt>-update-<ordinal>: digits of SHA-256, mode 0600. Not thread-safe; two processes of one name
// may share a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/sha256.h"
#include "engine/io/sealed_file.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Result of one task's training, with the update in the form of its upload.
struct FinishedWork : TaskResult {
  std::string update;
};

class PersistedUpdates {
 public:
  struct Options {
    int64_t max_bytes = 2'000'000'000;  // of all files together; beyond it the oldest are removed
    // Receives a sentence when an update is dropped or cannot be written, with the reason.
    std::function<void(const std::string& sentence)> on_note;
    // A shorter training is not worth two syncs of the disk: it is repeated after a power failure.
    double unsynced_seconds = 0.1;
    // Several objects of this process write for one client, each for another task: incomplete files stay.
    bool shared = false;
  };
  // Removes incomplete files of earlier processes; creates nothing. `fs` must outlive this.
  PersistedUpdates(FileSystem& fs, const std::string& folder, std::string client_id, Options options);

  // Writes an update before it is sent. A failure is no error, since the update is sent all the same; it is noted once
  // until a write succeeds. `repeatable`: training again gives the same bits. A training shorter than
  // Options::unsynced_seconds is then written without waiting for the disk.
  void Keep(const Task& task, const FinishedWork& work, bool repeatable = false);
  // Writes an update that its client has sent, for an aggregator, which acknowledges it only then. The caller handles
  // the error.
  Status KeepSent(const Task& task, std::string_view update, const TaskResult& measured);
  bool Has(const TaskId& task) const;
  // The update of this very task; nullopt: none. A file that is damaged, or of another task of this name, is dropped
  // with a note.
  std::optional<FinishedWork> Find(const Task& task);
  // Removes an update that will not be sent again, with `reason` in the note.
  void Drop(const TaskId& task, std::string_view reason);
  // Applies the outcome of an earlier task. Refused, dropped or failed: its update is removed. In a durable version:
  // its update and those of the run's earlier rounds are removed.
  void Settle(const TaskOutcome& outcome);
  // Removes all updates of a finished run.
  void RunIsOver(std::string_view run_id);
  // The same for every client below `folder`; and the removal of all incomplete files there, before any other use.
  static void RunIsOver(FileSystem& fs, const std::string& folder, std::string_view run_id);
  static void RemoveHalfWritten(FileSystem& fs, const std::string& folder);

 private:
  struct Place {
    std::string run;  // digits of its id
    TaskName name;
    std::string path;
  };
  std::optional<Place> PlaceOf(const TaskId& task) const;  // nullopt: no training of this client
  Status Write(const Place& place, const Task& task, const TaskResult& numbers, std::string_view update,
               Survives survives);
  // The files of a run whose round is at most `last`.
  void Remove(std::string_view run_digits, int64_t last);
  bool MakeRoom(int64_t bytes);  // drops the oldest; false: there is no room for so many
  void Say(const std::string& sentence) const;

  FileSystem& fs_;
  const std::string folder_, client_id_;
  const Options options_;
  std::optional<TaskOutcome> settled_;  // the last one: every poll reports it
  bool said_lost_ = false;
};

}  // namespace rivulet
