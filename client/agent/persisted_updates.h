// Finished work of one client, on disk from before it is sent until its outcome is durable. A client that dies after
// its training, or a coordinator that dies with updates that it has acknowledged, costs no training: the task is
// offered again under its name, and what is held of it is sent as it lies here.
//
//   trained ──→ Keep ──→ sent ──→ acknowledged ──→ Settle: durable ──→ removed
//                 ↑________ offered again: Find ________│
//
// A file for each, <folder>/<24 digits of the client's name>/<24 digits of the run's id>-r<round>-a<attempt>-update-
// <ordinal>: digits of SHA-256, mode 0600. Not thread-safe; two processes of one name may share a folder.
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

// What training came to: the update as it is sent, and what is told of it here.
struct FinishedWork {
  std::string update;
  int64_t examples = 0, steps = 0;
  double train_loss = 0, train_seconds = 0;
};

class PersistedUpdates {
 public:
  struct Options {
    int64_t max_bytes = 2'000'000'000;  // of all files together; what would be more costs the oldest
    // A sentence for whoever watches: what was dropped, or cannot be kept, and why.
    std::function<void(const std::string& sentence)> on_note;
    // Training that took less is not worth two syncs of the disk: after a power failure it is done again.
    double unsynced_seconds = 0.1;
    // Of a process in which several of these write for one client, each another task: half written files stay.
    bool shared = false;
  };
  // Makes nothing; files that a process left half written go. `fs` must outlive this.
  PersistedUpdates(FileSystem& fs, const std::string& folder, std::string client_id, Options options);

  // Before it is sent. What cannot be kept is said, once until something can, and is no error: it is sent all the same.
  // `repeatable`: trained again the task gives the same bits. Then work of less than Options::unsynced_seconds is
  // written without waiting for the disk.
  void Keep(const Task& task, const FinishedWork& work, bool repeatable = false);
  // The same of one that its client has sent, for a tier, which acknowledges nothing before: what cannot be kept is the
  // caller's to say. Find tells its update and its seconds, and of the rest nothing.
  Status KeepSent(const Task& task, std::string_view update, double train_seconds);
  bool Has(const TaskId& task) const;
  // Of this very task; nullopt: nothing. What is damaged, or of another task of this name, goes and is said.
  std::optional<FinishedWork> Find(const Task& task);
  // It will not be sent again, for `reason`.
  void Drop(const TaskId& task, std::string_view reason);
  // What the coordinator says of an earlier task: refused, dropped or failed, it goes; in a durable version, it goes
  // and all that this client holds of the run's earlier rounds.
  void Settle(const TaskOutcome& outcome);
  // The run has finished, so that all of it is durable.
  void RunIsOver(std::string_view run_id);
  // The same of every client's that lie below `folder`; and what was left half written there goes, before any is.
  static void RunIsOver(FileSystem& fs, const std::string& folder, std::string_view run_id);
  static void RemoveHalfWritten(FileSystem& fs, const std::string& folder);

 private:
  struct Place {
    std::string run;  // its digits
    TaskName name;
    std::string path;
  };
  std::optional<Place> PlaceOf(const TaskId& task) const;  // nullopt: no training of this client
  Status Write(const Place& place, const Task& task, const FinishedWork& numbers, std::string_view update,
               Survives survives);
  // The files of a run whose round is at most `last`.
  void Remove(std::string_view run_digits, int64_t last);
  bool MakeRoom(int64_t bytes);  // false: there is none for so many
  void Say(const std::string& sentence) const;

  FileSystem& fs_;
  const std::string folder_, client_id_;
  const Options options_;
  std::optional<TaskOutcome> settled_;  // the last one: it is told at every poll
  bool said_lost_ = false;
};

}  // namespace rivulet
