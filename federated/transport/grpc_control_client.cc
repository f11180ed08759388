#include "federated/transport/control_messages.h"
#include "federated/transport/grpc_connection.h"
#include "federated/transport/grpc_control.h"
#include "federated/transport/messages.h"

namespace rivulet {
namespace {

class ControlClient final : public ControlApi {
 public:
  explicit ControlClient(const GrpcControlOptions& options)
      : options_(options),
        connection_(std::make_shared<ClientConnection>(options.coordinator, options.credentials, options.proxy)) {}

  StatusOr<std::vector<RunState>> Runs(const OperatorCaller&) override {
    rpc::RunsReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Runs(call.context(), {}, &reply)));
    std::vector<RunState> runs;
    for (const rpc::RunStateProto& run : reply.runs()) runs.push_back(FromMessage(run));
    return runs;
  }

  StatusOr<ClientPage> Clients(const OperatorCaller&, const std::string& after) override {
    rpc::ClientsRequestProto request;
    request.set_after(after);
    rpc::ClientsReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Clients(call.context(), request, &reply)));
    ClientPage page{.clients = {}, .more = reply.more()};
    for (const rpc::ClientStateProto& client : reply.clients()) page.clients.push_back(FromMessage(client));
    return page;
  }

  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller&) override {
    rpc::AuditReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Audit(call.context(), {}, &reply)));
    std::vector<AuditEntry> entries;
    for (const rpc::AuditEntryProto& entry : reply.entries()) entries.push_back(FromMessage(entry));
    return entries;
  }

  StatusOr<std::string> Command(const OperatorCaller&, const OperatorCommand& command) override {
    rpc::CommandRequestProto request;
    request.set_action(command.action);
    request.set_subject(command.subject);
    request.set_detail(command.detail);
    rpc::CommandReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Command(call.context(), request, &reply)));
    return std::move(*reply.mutable_sentence());
  }

  StatusOr<std::string> StartRun(const OperatorCaller&, const RunSubmission& submission) override {
    rpc::StartRunRequestProto request;
    request.set_scenario(submission.scenario);
    request.set_plan(submission.plan);
    if (const size_t bytes = request.ByteSizeLong(); bytes >= kMaxMessageBytes) {
      return InvalidArgument(
          "the scenario or plan has {} bytes, and at most {} can be sent; copy it to the coordinator's machine and "
          "start it there",
          bytes, kMaxMessageBytes - 1);
    }
    rpc::StartRunReplyProto reply;
    ClientCall call(connection_, options_.start_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().StartRun(call.context(), request, &reply)));
    return std::move(*reply.mutable_run_id());
  }

 private:
  const GrpcControlOptions options_;
  const std::shared_ptr<ClientConnection> connection_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlApi>> ConnectControl(GrpcControlOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable(options.coordinator, *options.credentials));
  return std::make_unique<ControlClient>(options);
}

}  // namespace rivulet
