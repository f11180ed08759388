#include "federated/transport/grpc_server.h"

#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/io/crc32c.h"
#include "federated/transport/grpc_options.h"
#include "federated/transport/messages.h"
#include "proto/rpc/coordinator.grpc.pb.h"

namespace rivulet {
namespace {

using Clock = std::chrono::steady_clock;

// Ends streams whose peer has stalled: a peer that answers pings but moves no bytes would hold a thread for ever.
class StallWatch {
 public:
  explicit StallWatch(std::chrono::milliseconds timeout) : timeout_(timeout), thread_([this] { Loop(); }) {}
  ~StallWatch() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  // While it lives, the call is watched; Waiting/Moved bracket every wait for the peer (and not the api's own work).
  class Guard {
   public:
    Guard(StallWatch& watch, grpc::ServerContext* context) : watch_(watch), context_(context) {}
    ~Guard() { Moved(); }
    void Waiting() {
      MutexLock lock(watch_.mutex_);
      watch_.waiting_[context_] = Clock::now();
    }
    void Moved() {
      MutexLock lock(watch_.mutex_);
      watch_.waiting_.erase(context_);
    }

   private:
    StallWatch& watch_;
    grpc::ServerContext* context_;
  };

 private:
  void Loop() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      changed_.WaitFor(mutex_, std::min<std::chrono::nanoseconds>(timeout_ / 4, std::chrono::seconds(5)));
      const auto now = Clock::now();
      // Cancelled, and taken off the list by its own thread, which wakes with a failed read or write.
      for (const auto& [context, since] : waiting_) {
        if (now - since > timeout_) context->TryCancel();
      }
    }
  }

  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  CondVar changed_;
  std::map<grpc::ServerContext*, Clock::time_point> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class Service final : public rpc::Coordinator::Service {
 public:
  Service(CoordinatorApi& api, std::chrono::milliseconds stall_timeout) : api_(api), watch_(stall_timeout) {}

  grpc::Status Poll(grpc::ServerContext*, const rpc::PollRequestProto* request, rpc::PollReplyProto* reply) override {
    const auto answer = api_.Poll(FromMessage(*request));
    if (!answer.ok()) return ToGrpc(answer.status());
    ToMessage(*answer, reply);
    return grpc::Status::OK;
  }

  grpc::Status Fetch(grpc::ServerContext* context, const rpc::FetchRequestProto* request,
                     grpc::ServerWriter<rpc::ChunkProto>* writer) override {
    return ToGrpc(DoFetch(context, *request, *writer));
  }

  grpc::Status Submit(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<rpc::SubmitReplyProto, rpc::SubmitMessageProto>* stream) override {
    return ToGrpc(DoSubmit(context, *stream));
  }

  grpc::Status Fail(grpc::ServerContext*, const rpc::FailRequestProto* request, rpc::FailReplyProto*) override {
    return ToGrpc(api_.Fail(FromMessage(request->caller()), FromMessage(request->failure())));
  }

 private:
  // The total goes with the first chunk alone; an empty blob is one empty chunk, since the receiver wants to hear of
  // the total.
  Status DoFetch(grpc::ServerContext* context, const rpc::FetchRequestProto& request,
                 grpc::ServerWriter<rpc::ChunkProto>& writer) {
    RIVULET_ASSIGN_OR_RETURN(const BlobId blob, FromMessage(request.id()));
    if (request.offset() < 0) return OutOfRange("offset {} of a blob is negative", request.offset());
    RIVULET_ASSIGN_OR_RETURN(const auto reader, api_.Fetch(FromMessage(request.caller()), blob, request.offset()));
    StallWatch::Guard guard(watch_, context);
    rpc::ChunkProto message;
    message.set_total_bytes(reader->total_bytes());
    bool first = true;
    while (true) {
      RIVULET_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, reader->Next());
      if (bytes.empty() && !first) return absl::OkStatus();
      do {
        const size_t part = std::min(bytes.size(), kChunkBytes);
        message.set_data(bytes.data(), part);
        message.set_crc(Crc32c(bytes.first(part)));
        bytes = bytes.subspan(part);
        guard.Waiting();
        const bool sent = writer.Write(message);
        guard.Moved();
        if (!sent) return Unavailable("the download of {} ended before its end", blob.digest.Hex());
        message.clear_total_bytes();
      } while (!bytes.empty());
      if (std::exchange(first, false) && message.data().empty()) return absl::OkStatus();
    }
  }

  // The offset is answered before the first byte is sent, so an upload that is known already costs one round trip and
  // no transfer.
  Status DoSubmit(grpc::ServerContext* context,
                  grpc::ServerReaderWriter<rpc::SubmitReplyProto, rpc::SubmitMessageProto>& stream) {
    StallWatch::Guard guard(watch_, context);
    rpc::SubmitMessageProto message;
    const auto read = [&] {
      guard.Waiting();
      const bool got = stream.Read(&message);
      guard.Moved();
      return got;
    };
    if (!read() || !message.has_header()) return InvalidArgument("an upload begins with its header");
    const Caller caller = FromMessage(message.header().caller());
    RIVULET_ASSIGN_OR_RETURN(const Submission submission, FromMessage(message.header().submission()));
    RIVULET_ASSIGN_OR_RETURN(const auto writer, api_.Submit(caller, submission));
    rpc::SubmitReplyProto reply;
    reply.set_offset(writer->offset());
    if (!stream.Write(reply)) return Unavailable("the upload of task '{}' was cut off", submission.task);
    while (read()) {
      if (message.has_chunk()) {
        RIVULET_RETURN_IF_ERROR(writer->Write(std::as_bytes(std::span(message.chunk()))));
      } else if (message.finish()) {
        RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, writer->Finish());
        ToMessage(result, reply.mutable_result());
        if (!stream.Write(reply)) return Unavailable("the answer to task '{}' was cut off", submission.task);
        return absl::OkStatus();
      } else {
        return InvalidArgument("an upload has one header, then chunks, then its end");
      }
    }
    return Unavailable("the upload of task '{}' was cut off before its end", submission.task);
  }

  CoordinatorApi& api_;
  StallWatch watch_;
};

class Server final : public GrpcServer {
 public:
  Server(CoordinatorApi& api, const GrpcServerOptions& options)
      : service_(api, options.stall_timeout), address_(options.listen) {}
  ~Server() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen(const GrpcServerOptions& options) {
    grpc::ServerBuilder builder;
    SetCommonArguments([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else a second coordinator would share the port
    // Each call of the synchronous server holds a thread; without a bound, clients that connect and wait could exhaust
    // the process.
    grpc::ResourceQuota quota("coordinator");
    quota.SetMaxThreads(options.max_threads);
    builder.SetResourceQuota(quota);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.RegisterService(&service_);
    int port = 0;
    builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials(), &port);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return Unavailable("cannot listen on {}: the address is in use, not this machine's, or not permitted",
                         address_.ToString());
    }
    address_.port = port;
    return absl::OkStatus();
  }

  NetworkAddress address() const override { return address_; }

  void Stop(std::chrono::milliseconds grace) override {
    if (server_ == nullptr || stopped_.exchange(true)) return;
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    server_->Wait();
  }

 private:
  Service service_;
  NetworkAddress address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(CoordinatorApi& api, GrpcServerOptions options) {
  QuietGrpcLog();
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(options.listen));
  auto server = std::make_unique<Server>(api, options);
  RIVULET_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace rivulet
