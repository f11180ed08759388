// What the clients of a site keep from task to task, where that site shares no disk with the one that has the next
// task: it lies with the coordinator, which gives it with a task, and takes what the task proposes before its update.
// When a proposal has served is known there, so nothing is to be told of it here.
#pragma once

#include <string>
#include <string_view>

#include "client/calls/coordinator_calls.h"
#include "federated/states/state_store.h"

namespace rivulet {

// Thread-safe where the api is.
class RemoteClientState final : public ClientStateStore {
 public:
  // `caller`: the site's, whatever its run. All must outlive this.
  RemoteClientState(CoordinatorApi& api, StopSignal& stop, Caller caller, CallOptions options)
      : calls_(api, stop, std::move(options)), caller_(std::move(caller)) {}

  StatusOr<StateBlob> Read(std::string_view run_id, std::string_view client_id, const TaskId& state_of) override;
  // FAILED_PRECONDITION: the coordinator does not take it, and why.
  Status Propose(std::string_view run_id, std::string_view client_id, const TaskId& task, StateBlob state) override;
  void Durable(std::string_view, std::string_view, const TaskId&) override {}
  void Forget(std::string_view, std::string_view, const TaskId&) override {}

 private:
  Caller In(std::string_view run_id) const;

  CoordinatorCalls calls_;
  const Caller caller_;
};

}  // namespace rivulet
