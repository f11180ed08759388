// Store of client state between tasks: control variates, previous models, personal layers. Each task proposes a state,
// and names the earlier task whose proposal it starts from, so crash recovery can go back by name. A proposal is
// readable at once, and is deleted only when a later one of the same client is durable.
//
//   Read(run, client, state_of) … Propose(task) … Durable(task) | Forget(task)      per client, in that order
//
// In a deployment the state never leaves the client's disk. In a simulation all worker sites share one store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

// Bytes written by federated/states/state_blob.h.
using StateBlob = std::string;

// Thread-safe; the caller must order the calls for one client.
class ClientStateStore {
 public:
  virtual ~ClientStateStore() = default;
  // Sets the largest state that the plan allows in later Reads; a store that fetches states refuses larger ones.
  virtual void Expect(int64_t most_bytes) { (void)most_bytes; }
  // `state_of` "": an empty state. NOT_FOUND: no such proposal, or a damaged one: the client's state was lost, or is
  // stored elsewhere.
  virtual StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) = 0;
  // Stores the state that `task` proposes, or replaces it. RESOURCE_EXHAUSTED: no room; the task must fail.
  virtual Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) = 0;
  // `task` is in a durable version: earlier proposals of this client are deleted.
  virtual void Durable(std::string_view run_id, std::string_view client_id, const TaskId& task) = 0;
  // `task` was refused, dropped or failed: its proposal is deleted.
  virtual void Forget(std::string_view run_id, std::string_view client_id, const TaskId& task) = 0;
};

// A store with one file per proposal, <folder>/<run_id>/state/<4 digits>/<20
// digits>-r<round>-a<attempt>-state-<ordinal>, with digits of the SHA-256 of the client's name; mostly one file per
// client. Folders are created as needed. It keeps nothing in memory, so a million clients cost none. Files are written
// under a temporary name and renamed, so that a crash leaves a complete file or none. With `sync` they also survive a
// power cut; without, a file damaged by a power cut is reported as not found.
std::unique_ptr<ClientStateStore> NewStateStore(FileSystem& fs, std::string folder, bool sync);

// Deletes all states of one run, with `run_folder` = <folder>/<run_id>, and then empty folders. Files of other origin
// stay. Call after the run has ended, with no concurrent reads or proposals.
void RemoveStates(FileSystem& fs, const std::string& run_folder);

}  // namespace rivulet
