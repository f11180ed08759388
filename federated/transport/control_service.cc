#include "federated/transport/control_service.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "federated/transport/control_messages.h"
#include "rpc/grpc_options.h"

namespace rivulet {
namespace {

// A submission while it arrives. Nothing is read before `identify` has accepted an operator; `begin` is called when it
// is complete. Both run on `calls`. Exactly one operation is pending at any time, a read or a job; the last is Finish.
class SubmissionStream final : public grpc::ServerReadReactor<rpc::StartRunRequestProto> {
 public:
  SubmissionStream(Executor& calls, std::function<Status()> identify, std::function<Status(RunSubmission)> begin)
      : calls_(calls), begin_(std::move(begin)) {
    calls_.Run([this, identify = std::move(identify)] {
      const Status known = identify();
      known.ok() ? StartRead(&piece_) : Finish(ToGrpc(known));
    });
  }

  void OnReadDone(bool more) override {
    if (!more) return calls_.Run([this] { Finish(ToGrpc(Begin())); });
    if (pieces_++ == 0) {
      announced_ = piece_.bytes();
      submission_.scenario = std::move(*piece_.mutable_scenario());
    }
    submission_.plan += piece_.plan();
    submission_.arrays += piece_.arrays();
    if (const Status wrong = CheckTaken(); !wrong.ok()) return Finish(ToGrpc(wrong));
    StartRead(&piece_);
  }
  // gRPC's last call, in which a reactor must delete itself.
  void OnDone() override { delete this; }

 private:
  size_t taken() const { return submission_.plan.size() + submission_.arrays.size(); }
  // A submission in one message needs no announced size.
  Status CheckTaken() const {
    const uint64_t most = pieces_ > 1 ? announced_ : std::max<uint64_t>(announced_, taken());
    if (taken() <= most && most <= static_cast<uint64_t>(kMaxSubmissionBytes)) return absl::OkStatus();
    return InvalidArgument("a submission of {} bytes has {} or more, and at most {} are taken", announced_, taken(),
                           kMaxSubmissionBytes);
  }
  // A broken stream ends like a complete one; comparing with the announced sizes detects it.
  Status Begin() {
    if (pieces_ > 0 && taken() >= announced_) return begin_(std::move(submission_));
    return InvalidArgument("a submission ends after {} of its {} bytes; submit it again", taken(), announced_);
  }

  Executor& calls_;
  const std::function<Status(RunSubmission)> begin_;
  rpc::StartRunRequestProto piece_;
  RunSubmission submission_;
  uint64_t announced_ = 0;
  int64_t pieces_ = 0;
};

}  // namespace

ControlService::ControlService(ControlApi& api, const Callers& callers)
    : api_(api), callers_(callers), calls_(ThreadExecutor("control", 2)) {}

template <typename Ask>
grpc::ServerUnaryReactor* ControlService::Answer(grpc::CallbackServerContext* context, Ask ask) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  calls_->Run([this, context, reactor, ask = std::move(ask)] {
    OperatorCaller caller;
    Status status = callers_.IdentifyOperator(*context, &caller);
    if (status.ok()) status = ask(caller);
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::Runs(grpc::CallbackServerContext* context, const rpc::RunsRequestProto*,
                                               rpc::RunsReplyProto* reply) {
  return Answer(context, [this, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const ServedRuns served, api_.Runs(caller));
    for (const RunState& run : served.runs) ToMessage(run, reply->add_runs());
    for (const std::string& warning : served.warnings) reply->add_warnings(warning);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Clients(grpc::CallbackServerContext* context,
                                                  const rpc::ClientsRequestProto* request,
                                                  rpc::ClientsReplyProto* reply) {
  return Answer(context, [this, request, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const ClientPage page, api_.Clients(caller, request->after()));
    for (const ClientState& client : page.clients) ToMessage(client, reply->add_clients());
    reply->set_more(page.more);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Audit(grpc::CallbackServerContext* context, const rpc::AuditRequestProto*,
                                                rpc::AuditReplyProto* reply) {
  return Answer(context, [this, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditEntry> entries, api_.Audit(caller));
    for (const AuditEntry& entry : entries) ToMessage(entry, reply->add_entries());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ControlService::Command(grpc::CallbackServerContext* context,
                                                  const rpc::CommandRequestProto* request,
                                                  rpc::CommandReplyProto* reply) {
  return Answer(context, [this, request, reply](const OperatorCaller& caller) -> Status {
    RIVULET_ASSIGN_OR_RETURN(*reply->mutable_sentence(),
                             api_.Command(caller, {request->action(), request->subject(), request->detail()}));
    return absl::OkStatus();
  });
}

grpc::ServerReadReactor<rpc::StartRunRequestProto>* ControlService::StartRun(grpc::CallbackServerContext* context,
                                                                             rpc::StartRunReplyProto* reply) {
  const auto caller = std::make_shared<OperatorCaller>();
  return new SubmissionStream(
      *calls_, [this, context, caller] { return callers_.IdentifyOperator(*context, caller.get()); },
      [this, reply, caller](RunSubmission submission) -> Status {
        RIVULET_ASSIGN_OR_RETURN(*reply->mutable_run_id(), api_.StartRun(*caller, submission));
        return absl::OkStatus();
      });
}

}  // namespace rivulet
