#include "client/site/remote_client_state.h"

#include <utility>

namespace rivulet {

Caller RemoteClientState::In(std::string_view run_id) const {
  Caller caller = caller_;
  caller.run_id = run_id;
  return caller;
}

StatusOr<StateBlob> RemoteClientState::Read(std::string_view run_id, std::string_view, const TaskId& state_of) {
  if (state_of.empty()) return StateBlob();
  return calls_.Fetch(In(run_id), StateBlobOf(state_of), most_bytes_);
}

Status RemoteClientState::Propose(std::string_view run_id, std::string_view, const TaskId& task, StateBlob state) {
  Submission submission{.task = task, .bytes = std::ssize(state), .kind = Submission::Kind::kState};
  RIVULET_ASSIGN_OR_RETURN(
      const SubmitResult result,
      calls_.Submit(In(run_id), submission, std::make_shared<const std::string>(std::move(state))));
  if (result.kind != SubmitResult::Kind::kRefused) return absl::OkStatus();
  return FailedPrecondition("the coordinator refuses the state of task '{}': {}", task, result.reason);
}

}  // namespace rivulet
