#include <algorithm>
#include <string_view>

#include "federated/transport/control_messages.h"
#include "federated/transport/grpc_control.h"
#include "federated/transport/messages.h"
#include "proto/rpc/control.grpc.pb.h"
#include "rpc/grpc_connection.h"

namespace rivulet {
namespace {

constexpr int kPieceBytes = 256 << 10;  // size of a submission's pieces

class ControlClient final : public ControlApi {
 public:
  explicit ControlClient(const GrpcControlOptions& options)
      : options_(options),
        connection_(std::make_shared<ClientConnection>("coordinator", options.coordinator, options.credentials,
                                                       options.proxy)) {}

  StatusOr<ServedRuns> Runs(const OperatorCaller&) override {
    rpc::RunsReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.StubOf<rpc::Control>()->Runs(call.context(), {}, &reply)));
    ServedRuns served;
    for (const rpc::RunStateProto& run : reply.runs()) served.runs.push_back(FromMessage(run));
    served.warnings.assign(reply.warnings().begin(), reply.warnings().end());
    return served;
  }

  StatusOr<ClientPage> Clients(const OperatorCaller&, const std::string& after) override {
    rpc::ClientsRequestProto request;
    request.set_after(after);
    rpc::ClientsReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.StubOf<rpc::Control>()->Clients(call.context(), request, &reply)));
    ClientPage page{.clients = {}, .more = reply.more()};
    for (const rpc::ClientStateProto& client : reply.clients()) page.clients.push_back(FromMessage(client));
    return page;
  }

  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller&) override {
    rpc::AuditReplyProto reply;
    ClientCall call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.StubOf<rpc::Control>()->Audit(call.context(), {}, &reply)));
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
    RIVULET_RETURN_IF_ERROR(call.End(call.StubOf<rpc::Control>()->Command(call.context(), request, &reply)));
    return std::move(*reply.mutable_sentence());
  }

  StatusOr<std::string> StartRun(const OperatorCaller&, const RunSubmission& submission) override {
    const auto refused = [](const char* what, size_t bytes, int64_t most) {
      return InvalidArgument(
          "the {} {} bytes, and at most {} can be sent; copy the scenario and its files to the coordinator's machine "
          "and start the run there",
          what, bytes, most);
    };
    constexpr int64_t kMostScenario = kMaxMessageBytes - kPieceBytes - 1024;  // shares a message with the first piece
    if (std::ssize(submission.scenario) > kMostScenario)
      return refused("scenario has", submission.scenario.size(), kMostScenario);
    std::string_view plan = submission.plan, arrays = submission.arrays;
    const size_t bytes = plan.size() + arrays.size();
    if (bytes > static_cast<size_t>(kMaxSubmissionBytes))
      return refused("plan and model.arrays have", bytes, kMaxSubmissionBytes);

    rpc::StartRunRequestProto piece;
    piece.set_scenario(submission.scenario);
    piece.set_bytes(bytes);
    rpc::StartRunReplyProto reply;
    ClientCall call(connection_, options_.start_timeout);
    const auto control = call.StubOf<rpc::Control>();
    const auto stream = control->StartRun(call.context(), &reply);
    // If a piece is not accepted, the stream's end has the reason.
    do {
      const size_t of_plan = std::min<size_t>(plan.size(), kPieceBytes);
      const size_t of_arrays = std::min<size_t>(arrays.size(), kPieceBytes - of_plan);
      piece.set_plan(plan.data(), of_plan);
      piece.set_arrays(arrays.data(), of_arrays);
      plan.remove_prefix(of_plan);
      arrays.remove_prefix(of_arrays);
      if (!stream->Write(piece)) break;
      piece.Clear();
    } while (!plan.empty() || !arrays.empty());
    stream->WritesDone();
    RIVULET_RETURN_IF_ERROR(call.End(stream->Finish()));
    return std::move(*reply.mutable_run_id());
  }

 private:
  const GrpcControlOptions options_;
  const std::shared_ptr<ClientConnection> connection_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlApi>> ConnectControl(GrpcControlOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable("coordinator", options.coordinator, *options.credentials));
  return std::make_unique<ControlClient>(options);
}

}  // namespace rivulet
