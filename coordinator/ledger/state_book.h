// Current state of each client, as the task that proposed it: the newest one aggregated into a finished version.
// Clients never aggregated have none. If clients also evaluate with their state, the book keeps the states at earlier
// versions. A pure value; a name and 24 bytes a client, and as much for each older state that is kept. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "federated/tasks/task.h"

namespace rivulet {

class StateBook {
 public:
  explicit StateBook(std::string run_id) : run_id_(std::move(run_id)) {}

  // Records an aggregated task, in order. The newest one again changes nothing, nor does a task of another run.
  void Folded(const TaskId& task);
  // Its state was lost: its next task starts without one.
  void Lost(const std::string& client_id) { newest_.erase(client_id); }
  // "": it has no state yet.
  TaskId Of(const std::string& client_id) const;

  // Keeps the states as of version `oldest` and later ones from now on; nullopt: only the newest. Drops states that
  // were superseded before that version; later superseded ones are kept.
  void AskedFrom(std::optional<int64_t> oldest);
  // The state at the time of version `version`, which AskedFrom permits; "": it had none.
  TaskId AsOf(const std::string& client_id, int64_t version) const;

 private:
  struct Place {
    int64_t round = 0, attempt = 0, ordinal = 0;
    bool operator==(const Place&) const = default;
  };
  TaskId TaskAt(const std::string& client_id, const Place& place) const;

  const std::string run_id_;
  std::unordered_map<std::string, Place> newest_;
  std::optional<int64_t> oldest_;
  std::unordered_map<std::string, std::deque<Place>> earlier_;  // ascending; without clients that have none
  std::deque<std::pair<int64_t, std::string>> superseded_;      // superseding round, and client of the superseded state
};

}  // namespace rivulet
