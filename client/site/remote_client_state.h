// Clients' state stored at the coordinator, for a site that shares no disk with the site of a client's next task. The
// coordinator sends the state with a task and takes the proposed state before the update. It also tracks which
// proposals are durable, so that Durable and Forget do nothing here.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "client/calls/coordinator_calls.h"
#include "federated/states/state_store.h"

namespace rivulet {

// Store of states at the coordinator. Thread-safe if the api is.
class RemoteClientState final : public ClientStateStore {
 public:
  // `caller`: the site's, for any run. All must outlive this.
  RemoteClientState(CoordinatorApi& api, StopSignal& stop, Caller caller, CallOptions options)
      : calls_(api, stop, std::move(options)), caller_(std::move(caller)) {}

  void Expect(int64_t most_bytes) override { most_bytes_ = most_bytes; }
  // INVALID_ARGUMENT: the coordinator announced more bytes than Expect allows.
  StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) override;
  // FAILED_PRECONDITION: the coordinator refuses it, with the reason.
  Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) override;
  void Durable(std::string_view, std::string_view, const TaskId&) override {}
  void Forget(std::string_view, std::string_view, const TaskId&) override {}

 private:
  Caller In(std::string_view run_id) const;

  CoordinatorCalls calls_;
  const Caller caller_;
  std::atomic<int64_t> most_bytes_ = 0;
};

}  // namespace rivulet
