#include "federated/transport/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "engine/base/available_cores.h"
#include "engine/base/check.h"
#include "engine/base/executor.h"
#include "federated/transport/control_service.h"
#include "federated/transport/download_stream.h"
#include "federated/transport/messages.h"
#include "federated/transport/server_stream.h"
#include "federated/transport/upload_stream.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "rpc/grpc_options.h"
#include "rpc/long_polls.h"
#include "rpc/security.h"

namespace rivulet {
namespace {

// Checks the caller's right to poll for `serves`, by its certificate if there is one.
Status CheckServes(const ServedStreams& shared, const Caller& caller, Serves::Kind serves) {
  if (serves == Serves::Kind::kAny && !shared.admit_sites) {
    return PermissionDenied("'{}' asks for the tasks of every client of the run, and no such site is admitted here",
                            caller.name);
  }
  if (serves == Serves::Kind::kNames && !shared.admit_aggregators) {
    return PermissionDenied(
        "'{}' is no admitted aggregator, and asks for the tasks of its clients; start this coordinator with "
        "--aggregators",
        caller.name);
  }
  if (serves == Serves::Kind::kNames && caller.proven == Caller::Proven::kClient) {
    return PermissionDenied(
        "the certificate of 'client/{}' does not make it an aggregator; use one that does ('rivulet ca issue "
        "aggregator/ID')",
        caller.name);
  }
  if (serves == Serves::Kind::kItself && caller.proven == Caller::Proven::kAggregator) {
    return PermissionDenied(
        "the certificate of 'aggregator/{}' is not a client's, and only clients train; use the kit of a client "
        "('rivulet ca "
        "kit client/ID')",
        caller.name);
  }
  return absl::OkStatus();
}

// Polls and failures are short, apart from the row of a new client; a few threads answer any number of them.
constexpr int kCallThreads = 8;

// Upper limit of held polls, so that vanished callers are forgotten by then.
constexpr std::chrono::milliseconds kLongestHold = std::chrono::minutes(1);

int StreamThreads(const GrpcServerOptions& options) {
  if (options.api_waits) return options.transfers.places + options.transfers.short_places;
  return std::max(2, AvailableCores());
}

// Whether `reply` contains nothing new for the caller of `request`.
bool TellsNothing(const PollRequest& request, const PollReply& reply) {
  return reply.tasks.empty() && reply.cancelled.empty() && reply.hand_over.empty() && reply.refused_names.empty() &&
         !reply.over && request.told;
}

// Streams use raw gRPC buffers, short calls parsed messages.
using CoordinatorService = rpc::Coordinator::WithCallbackMethod_Poll<
    rpc::Coordinator::WithRawCallbackMethod_Fetch<rpc::Coordinator::WithRawCallbackMethod_Submit<
        rpc::Coordinator::WithCallbackMethod_Fail<rpc::Coordinator::Service>>>>;

class Service final : public CoordinatorService, public NewsListener {
 public:
  Service(CoordinatorApi& api, ServerSecurity& security, const GrpcServerOptions& options)
      : shared_{api,
                Callers(security, options.admit_sites || options.admit_aggregators),
                options.admit_sites,
                options.admit_aggregators,
                StreamGuard(options.limits),
                options.transfers,
                TransferPlaces(options.transfers.short_places, options.transfers),
                TransferPlaces(options.transfers.places, options.transfers),
                ThreadExecutor("calls", kCallThreads),
                ThreadExecutor("streams", StreamThreads(options))} {}

  // Holds a poll without news. A caller whose polls are held need not wait between them.
  grpc::ServerUnaryReactor* Poll(grpc::CallbackServerContext* context, const rpc::PollRequestProto* message,
                                 rpc::PollReplyProto* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    shared_.calls->Run([this, context, reactor, message, reply] {
      StatusOr<PollRequest> asked = FromMessage(*message);
      if (asked.ok()) {
        if (const Status status = shared_.callers.Identify(*context, &asked->caller); !status.ok()) asked = status;
      }
      if (asked.ok()) {
        if (const Status status = CheckServes(shared_, asked->caller, asked->serves.kind); !status.ok()) asked = status;
      }
      if (!asked.ok()) {
        reactor->Finish(ToGrpc(asked.status()));
        return;
      }
      const std::string name = asked->caller.name;
      auto ask = [this, context, reactor, reply, request = *std::move(asked)](bool last) {
        // Callers that have hung up get no task.
        if (context->IsCancelled()) {
          reactor->Finish(grpc::Status::CANCELLED);
          return true;
        }
        // A held poll may be old: its caller's access may have been revoked meanwhile.
        Caller caller = request.caller;
        const Status admitted = shared_.callers.Identify(*context, &caller);
        StatusOr<PollReply> answer = admitted.ok() ? shared_.api.Poll(request) : admitted;
        if (answer.ok() && !last && TellsNothing(request, *answer)) return false;
        if (answer.ok()) {
          // A caller with a task keeps the time until its next progress report.
          if (request.hold_ms > 0 && answer->tasks.empty()) answer->wait_ms = std::min<int64_t>(answer->wait_ms, 1);
          ToMessage(*answer, reply);
        }
        reactor->Finish(ToGrpc(answer.status()));
        return true;
      };
      const std::chrono::milliseconds hold(message->hold_ms());
      if (hold.count() <= 0) {
        ask(true);
      } else {
        held_.Hold(name, std::min(hold, kLongestHold), std::move(ask));
      }
    });
    return reactor;
  }
  void OnNews(const std::string& name) override { held_.News(name); }
  grpc::ServerUnaryReactor* Fail(grpc::CallbackServerContext* context, const rpc::FailRequestProto* request,
                                 rpc::FailReplyProto*) override {
    return Answer(context, [this, context, request]() -> Status {
      Caller caller = FromMessage(request->caller());
      RIVULET_RETURN_IF_ERROR(shared_.callers.Identify(*context, &caller));
      return shared_.api.Fail(caller, FromMessage(request->failure()));
    });
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Fetch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override {
    return NewDownload(shared_, context, *request);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Submit(grpc::CallbackServerContext* context) override {
    return NewUpload(shared_, context);
  }

  // From now on this receives news for held polls.
  void Open() { shared_.api.SetListener(this); }
  // Answers all held polls, and holds no more.
  void Close() {
    shared_.api.SetListener(nullptr);
    held_.Close();
  }
  TransferTotals transferred() const {
    const ServedStreams::Counts& counts = shared_.counts;
    return {.up = counts.up, .down = counts.down, .up_wire = counts.up_wire, .down_wire = counts.down_wire};
  }
  // Waits until all jobs have run; no further calls may arrive.
  void Drain() {
    shared_.calls.reset();
    shared_.streams.reset();
  }

 private:
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, std::function<Status()> call) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    shared_.calls->Run([reactor, call = std::move(call)] { reactor->Finish(ToGrpc(call())); });
    return reactor;
  }

  ServedStreams shared_;
  LongPolls held_{*shared_.calls};
};

class Server final : public GrpcServer {
 public:
  Server(CoordinatorApi& api, std::unique_ptr<ServerSecurity> security, const GrpcServerOptions& options)
      : security_(std::move(security)), service_(api, *security_, options), address_(options.listen) {
    security_->OnRevoked(options.on_revoked);
    if (options.control != nullptr)
      control_ = std::make_unique<ControlService>(*options.control, Callers(*security_, false));
  }
  ~Server() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen() {
    grpc::ServerBuilder builder;
    SetCommonArguments([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kServerReadBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // or a second coordinator could share the port
    // The outer limit: concurrent streams of one connection.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfAConnection);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // affects all servers that are built later
    builder.RegisterService(&service_);
    if (control_ != nullptr) builder.RegisterService(control_.get());
    int port = 0;
    builder.AddListeningPort(address_.ToString(), security_->credentials(), &port);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return Unavailable("cannot listen on {}: the address is in use, not this machine's, or not permitted",
                         address_.ToString());
    }
    address_.port = port;
    if (grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService()) {
      health->SetServingStatus(rpc::Coordinator::service_full_name(), true);
      if (control_ != nullptr) health->SetServingStatus(rpc::Control::service_full_name(), true);
    }
    service_.Open();
    return absl::OkStatus();
  }

  NetworkAddress address() const override { return address_; }
  TransferTotals transferred() const override { return service_.transferred(); }

  void Stop(std::chrono::milliseconds grace) override {
    if (server_ == nullptr || stopped_.exchange(true)) return;
    service_.Close();
    // Reports the shutdown to health watchers before their connections close.
    if (grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService()) health->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    server_->Wait();  // waits until every stream has ended
    service_.Drain();
    if (control_ != nullptr) control_->Drain();
    security_->OnRevoked(nullptr);
  }

 private:
  const std::unique_ptr<ServerSecurity> security_;
  Service service_;
  std::unique_ptr<ControlService> control_;  // null: operators may not call
  NetworkAddress address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(CoordinatorApi& api, GrpcServerOptions options) {
  PrepareGrpc();
  RIVULET_RETURN_IF_ERROR(CheckRoomForGrpc());
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(options.listen));
  RIVULET_ASSIGN_OR_RETURN(auto security, options.credentials->ForServer());
  auto server = std::make_unique<Server>(api, std::move(security), options);
  RIVULET_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace rivulet
