// Store of client state between tasks: control variates, previous models, personal layers. A task names the task whose
// proposal is its state, so recovery from a crash goes back by name. A proposal is readable at once, and is deleted
// only when a later one of the same client is durable.
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

// As federated/states/state_blob.h writes it.
using StateBlob = std::string;

// Thread-safe; calls of one client are the caller's to order.
class ClientStateStore {
 public:
  virtual ~ClientStateStore() = default;
  // The largest state that the plan of the next Reads allows; a store that fetches states takes no more.
  virtual void Expect(int64_t most_bytes) { (void)most_bytes; }
  // `state_of` "": an empty state. NOT_FOUND: no such proposal, or no longer whole: the client's state was lost, or
  // belongs elsewhere.
  virtual StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) = 0;
  // What `task` proposes; once more replaces it. RESOURCE_EXHAUSTED: no room left; the task must fail.
  virtual Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) = 0;
  // `task` is in a durable version: what this client proposed before it goes.
  virtual void Durable(std::string_view run_id, std::string_view client_id, const TaskId& task) = 0;
  // Refused, dropped, failed: its proposal goes.
  virtual void Forget(std::string_view run_id, std::string_view client_id, const TaskId& task) = 0;
};

// A file for each proposal, <folder>/<run_id>/state/<4 digits>/<20 digits>-r<round>-a<attempt>-state-<ordinal>, its
// digits of the SHA-256 of the client's name; mostly one a client. Folders are made when they are needed. Nothing is
// kept in memory beside what the system keeps of files anyway, so a million clients cost none. Files are written to a
// temporary name and renamed, so that a process that dies leaves a whole one or none; with `sync` they survive a power
// cut too (without, one that a power cut damages is not found).
std::unique_ptr<ClientStateStore> NewStateStore(FileSystem& fs, std::string folder, bool sync);

// All that such a store keeps of one run, `run_folder` being <folder>/<run_id>, and the folders that are empty then.
// What a store did not write stays. The run is over: nobody reads or proposes meanwhile.
void RemoveStates(FileSystem& fs, const std::string& run_folder);

}  // namespace rivulet
