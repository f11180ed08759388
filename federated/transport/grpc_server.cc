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
#include "federated/transport/chunk_messages.h"
#include "federated/transport/control_service.h"
#include "federated/transport/grpc_options.h"
#include "federated/transport/held_polls.h"
#include "federated/transport/messages.h"
#include "federated/transport/security.h"
#include "federated/transport/stream_guard.h"
#include "federated/transport/transfer_places.h"
#include "proto/rpc/coordinator.grpc.pb.h"

namespace rivulet {
namespace {

// What the streams of a service share. Jobs that touch the api, and with it disks and other callers' folds, run on
// threads of their own: gRPC's must not block. Polls have theirs, so that no upload is before them.
struct Shared {
  CoordinatorApi& api;
  ServerSecurity& security;
  const bool admit_sites, admit_tiers;
  StreamGuard guard;
  TransferPlaces places;
  std::unique_ptr<Executor> calls, streams;
};

// Of whoever speaks for `serves`; its certificate, where there is one, says what it may be.
Status CheckServes(const Shared& shared, const Caller& caller, Serves::Kind serves) {
  if (serves == Serves::Kind::kAny && !shared.admit_sites) {
    return PermissionDenied("'{}' wants to speak for every client of the run, and no such site is admitted here",
                            caller.name);
  }
  if (serves == Serves::Kind::kNames && !shared.admit_tiers) {
    return PermissionDenied(
        "'{}' wants to speak for the clients that call it, and no tier is admitted here; start this coordinator with "
        "--tiers",
        caller.name);
  }
  if (serves == Serves::Kind::kNames && caller.proven == Caller::Proven::kClient) {
    return PermissionDenied(
        "the certificate of 'client/{}' does not make it a tier; use one that does ('rivulet ca issue tier/ID')",
        caller.name);
  }
  if (serves == Serves::Kind::kItself && caller.proven == Caller::Proven::kTier) {
    return PermissionDenied(
        "the certificate of 'tier/{}' is not a client's, and only clients train; use the kit of a client ('rivulet ca "
        "kit client/ID')",
        caller.name);
  }
  return absl::OkStatus();
}

// Whether it may bring what many clients have made together.
bool MayBringPartials(const Shared& shared, const Caller& caller) {
  return shared.admit_sites || (shared.admit_tiers && caller.proven != Caller::Proven::kClient);
}

// One stream of either direction. gRPC's reactors call back on gRPC's threads, concurrently where one lets them, may
// report an end while something is under way, and are theirs to delete; most of what can go wrong with them is two
// operations at once or a touch after the last. So there is exactly one thing under way at any time, and its name is
// kept: a callback is only the end of that thing, and hands over to a job; a job ends by beginning the next thing, and
// touches nothing after that. A cancellation is heard as the failure of what is under way, or of what the job begins
// next.
template <typename Reactor>
class Stream : public Reactor {
 public:
  // gRPC's last word. The writer or reader of the api goes on the executor, as giving back memory or files takes time.
  // The one `delete this` that reactors force.
  void OnDone() final {
    if (id_.ok()) shared_.guard.Leave(*id_);
    shared_.streams->Run([this] {
      const auto id = id_;
      TransferPlaces& places = shared_.places;
      delete this;
      if (id.ok()) places.Leave(*id);  // what it held is free for the next
    });
  }
  void OnCancel() final {
    if (id_.ok()) shared_.places.Hurry(*id_);
  }

 protected:
  enum class Doing : uint8_t { kStarting, kReading, kWriting, kWorking, kFinishing };

  Stream(Shared& shared, grpc::CallbackServerContext* context)
      : shared_(shared),
        context_(context),
        id_(shared.guard.Enter(context->peer(), [context] { context->TryCancel(); })) {}

  Shared& shared() { return shared_; }
  Status entered() const { return id_.status(); }
  const Caller& caller() const { return caller_; }
  // Whose stream it is, of a message that says so.
  Status Name(const rpc::CallerProto& message, const char* what) {
    caller_ = FromMessage(message);
    RIVULET_RETURN_IF_ERROR(IdentifyAgain());
    return shared_.guard.Name(*id_, caller_.name, what);
  }
  // Whether it may still go on: a stream may be open for long.
  Status IdentifyAgain() { return shared_.security.Identify(*context_, &caller_); }

  // The last thing that a job or a callback does is one of these.
  void Work(std::function<void()> job) {
    Become(Doing::kWorking);
    shared_.streams->Run(std::move(job));
  }
  // The same when it is this stream's turn to move many bytes; until then none of them is asked for or sent. Not for a
  // peer that has gone or was shut out meanwhile.
  void WorkInTurn(std::function<void()> job) {
    Become(Doing::kWorking);
    shared_.places.Enter(*id_, [this, job = std::move(job)] {
      shared_.streams->Run([this, job] {
        const Status status = context_->IsCancelled() ? Unavailable("the peer has gone") : IdentifyAgain();
        status.ok() ? job() : End(status);
      });
    });
  }
  bool KeepsUp() { return shared_.places.KeepsUp(*id_); }
  template <typename Message>
  void Read(Message* message) {
    Become(Doing::kReading);
    Wait();
    this->StartRead(message);
  }
  template <typename Message>
  void Write(const Message* message) {
    Become(Doing::kWriting);
    Wait();
    this->StartWrite(message);
  }
  template <typename Message>
  void WriteLast(const Message* message) {
    Become(Doing::kFinishing);
    Wait();
    this->StartWriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK);
  }
  void End(const Status& status) {
    Become(Doing::kFinishing);
    this->Finish(ToGrpc(status));
  }

  // The first thing that a callback does; `bytes` of a transfer came or went.
  void Ended(Doing doing, size_t bytes) {
    RIVULET_CHECK(doing_ == doing, "a stream that does {} hears the end of {}", static_cast<int>(doing_.load()),
                  static_cast<int>(doing));
    shared_.guard.Moved(*id_);
    shared_.places.Moved(*id_, static_cast<int64_t>(bytes));
  }

 private:
  void Wait() {
    shared_.guard.Waiting(*id_);
    shared_.places.Waiting(*id_);
  }
  void Become(Doing doing) {
    RIVULET_CHECK(doing_ != Doing::kFinishing, "a stream goes on after its end");
    doing_ = doing;
  }

  Shared& shared_;
  grpc::CallbackServerContext* const context_;
  const StatusOr<uint64_t> id_;
  Caller caller_;
  std::atomic<Doing> doing_ = Doing::kStarting;
};

// The total goes with the first chunk alone; an empty blob is one empty chunk, since the receiver wants to hear of the
// total.
class FetchStream final : public Stream<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  FetchStream(Shared& shared, grpc::CallbackServerContext* context, grpc::ByteBuffer request)
      : Stream(shared, context) {
    // Whose it is stands in the request, so it is never one of those that have said nothing.
    const Status status = Know(request);
    if (status.ok()) {
      WorkInTurn([this] { Begin(); });
    } else {
      End(status);
    }
  }
  void OnWriteDone(bool ok) override {
    Ended(Doing::kWriting, chunk_.Length());
    Work([this, ok] { ok ? Next() : End(Unavailable("a download was cut off")); });
  }

 private:
  Status Know(grpc::ByteBuffer& request) {
    RIVULET_RETURN_IF_ERROR(entered());
    RIVULET_RETURN_IF_ERROR(FromBuffer(request, &request_));
    return Name(request_.caller(), "downloads");
  }
  void Begin() {
    const Status status = Open();
    status.ok() ? Next() : End(status);
  }
  Status Open() {
    RIVULET_ASSIGN_OR_RETURN(const BlobId blob, FromMessage(request_.id()));
    if (blob.form == BlobId::Form::kState && !shared().admit_sites) {
      return PermissionDenied("'{}' asks for what a client keeps, and no site that may is admitted here",
                              caller().name);
    }
    if (request_.offset() < 0) return OutOfRange("offset {} of a blob is negative", request_.offset());
    RIVULET_ASSIGN_OR_RETURN(reader_, shared().api.Fetch(caller(), blob, request_.offset()));
    return absl::OkStatus();
  }
  void Next() {
    if (piece_.empty()) {
      StatusOr<std::span<const std::byte>> next = reader_->Next();
      if (!next.ok()) return End(next.status());
      piece_ = *next;
      if (piece_.empty() && began_) return End(absl::OkStatus());
    }
    const std::span<const std::byte> part =
        piece_.first(std::min(piece_.size(), sent_ >= kKnownBytes && KeepsUp() ? kFastChunkBytes : kChunkBytes));
    piece_ = piece_.subspan(part.size());
    sent_ += part.size();
    chunk_ = DownloadChunk(std::exchange(began_, true) ? 0 : reader_->total_bytes(), part);
    part.empty() ? WriteLast(&chunk_) : Write(&chunk_);
  }

  // What has to have gone before a peer is known: twice what a window takes in, however slow it is.
  static constexpr size_t kKnownBytes = size_t{2} * kStreamWindowBytes;

  std::unique_ptr<ChunkReader> reader_;
  rpc::FetchRequestProto request_;
  std::span<const std::byte> piece_;  // of the reader's, not sent yet
  grpc::ByteBuffer chunk_;
  size_t sent_ = 0;
  bool began_ = false;
};

// The next message is read when the last one is staged, so a slow disk holds the senders back. What is staged is
// answered before the first byte is sent, so an upload that is known already costs one round trip and no transfer.
class SubmitStream final : public Stream<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  SubmitStream(Shared& shared, grpc::CallbackServerContext* context) : Stream(shared, context) {
    entered().ok() ? Read(&in_) : End(entered());
  }
  void OnReadDone(bool ok) override {
    Ended(Doing::kReading, in_.Length());
    Work([this, ok] { Take(ok); });
  }
  void OnWriteDone(bool ok) override {
    Ended(Doing::kWriting, 0);
    ok ? Read(&in_) : End(Unavailable("the upload of {} was cut off", what_));
  }

 private:
  void Take(bool ok) {
    if (ok) {
      if (const Status status = arrived_.Take(in_); !status.ok()) return End(status);
    }
    const rpc::SubmitMessageProto& message = arrived_.message;
    if (writer_ == nullptr) {
      if (!ok || arrived_.has_chunk || !message.has_header()) {
        return End(InvalidArgument("an upload begins with its header"));
      }
      const Status status = Name(message.header().caller(), "uploads");
      if (!status.ok()) return End(status);
      return WorkInTurn([this] { Begin(arrived_.message.header()); });
    }
    if (!ok) return End(Unavailable("the upload of {} was cut off before its end", what_));
    Status status;
    if (arrived_.has_chunk) {
      status = Stage();
    } else if (message.has_resume()) {
      status = writer_->Resume(message.resume());
    } else if (message.has_finish()) {
      return Close(message.finish());
    } else {
      status = InvalidArgument("an upload has one header, then where it goes on, chunks, and its end");
    }
    status.ok() ? Read(&in_) : End(status);
  }
  Status Stage() {
    for (const std::span<const std::byte> piece : arrived_.data.pieces()) {
      RIVULET_RETURN_IF_ERROR(writer_->Write(piece));
    }
    arrived_.data.Clear();  // what has come goes before more does
    return absl::OkStatus();
  }
  void Begin(const rpc::SubmitHeaderProto& header) {
    const Status status = Open(header);
    if (!status.ok()) return End(status);
    if (const SubmitResult* decided = writer_->decided()) {
      return Answer(*decided);
    }
    rpc::SubmitReplyProto reply;
    rpc::StagedProto& staged = *reply.mutable_staged();
    for (const uint32_t crc : writer_->staged_crcs()) staged.add_crcs(crc);
    out_ = ToBuffer(reply);
    Write(&out_);
  }
  Status Open(const rpc::SubmitHeaderProto& header) {
    RIVULET_ASSIGN_OR_RETURN(const Submission submission, FromMessage(header.submission()));
    what_ = submission.task.empty() ? "a partial" : fmt::format("task '{}'", submission.task);
    const bool partial = submission.kind == Submission::Kind::kPartial;
    if (submission.kind != Submission::Kind::kUpdate &&
        !(partial ? MayBringPartials(shared(), caller()) : shared().admit_sites)) {
      return PermissionDenied("'{}' brings what only a site of many clients has, and none is admitted here",
                              caller().name);
    }
    RIVULET_ASSIGN_OR_RETURN(writer_, shared().api.Submit(caller(), submission));
    return absl::OkStatus();
  }
  void Close(const std::string& bytes) {
    if (const Status status = IdentifyAgain(); !status.ok()) return End(status);
    const StatusOr<Digest> identity = Digest::FromBytes(bytes);
    if (!identity.ok()) return End(identity.status());
    const StatusOr<SubmitResult> result = writer_->Finish(*identity);
    result.ok() ? Answer(*result) : End(result.status());
  }
  void Answer(const SubmitResult& result) {
    rpc::SubmitReplyProto reply;
    ToMessage(result, reply.mutable_result());
    out_ = ToBuffer(reply);
    WriteLast(&out_);
  }

  std::unique_ptr<ChunkWriter> writer_;
  std::string what_;
  grpc::ByteBuffer in_, out_;
  ArrivedSubmit arrived_;
};

// Polls and failures are short, save for the row of a new name; a few threads answer them, however many ask.
constexpr int kCallThreads = 8;

// However long a caller would wait: who has gone is forgotten by then.
constexpr std::chrono::milliseconds kLongestHold = std::chrono::minutes(1);

// Whether the caller of `request` would learn nothing from `reply`.
bool TellsNothing(const PollRequest& request, const PollReply& reply) {
  return reply.tasks.empty() && reply.cancelled.empty() && reply.hand_over.empty() && reply.refused_names.empty() &&
         !reply.over && request.told;
}

// Streams as gRPC's own buffers, what is short as messages.
using CoordinatorService = rpc::Coordinator::WithCallbackMethod_Poll<
    rpc::Coordinator::WithRawCallbackMethod_Fetch<rpc::Coordinator::WithRawCallbackMethod_Submit<
        rpc::Coordinator::WithCallbackMethod_Fail<rpc::Coordinator::Service>>>>;

class Service final : public CoordinatorService, public NewsListener {
 public:
  Service(CoordinatorApi& api, ServerSecurity& security, const GrpcServerOptions& options)
      : shared_{api,
                security,
                options.admit_sites,
                options.admit_tiers,
                StreamGuard(options.limits),
                TransferPlaces(options.transfers),
                ThreadExecutor("calls", kCallThreads),
                ThreadExecutor("streams", std::max(2, AvailableCores()))} {}

  // A poll that would tell nothing is held. A caller that lets its polls be held need not wait between them.
  grpc::ServerUnaryReactor* Poll(grpc::CallbackServerContext* context, const rpc::PollRequestProto* message,
                                 rpc::PollReplyProto* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    shared_.calls->Run([this, context, reactor, message, reply] {
      StatusOr<PollRequest> asked = FromMessage(*message);
      if (asked.ok()) {
        if (const Status status = shared_.security.Identify(*context, &asked->caller); !status.ok()) asked = status;
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
        // Who has hung up is given no task.
        if (context->IsCancelled()) {
          reactor->Finish(grpc::Status::CANCELLED);
          return true;
        }
        // A poll is held for long, and who asked may have been shut out meanwhile.
        Caller caller = request.caller;
        const Status admitted = shared_.security.Identify(*context, &caller);
        StatusOr<PollReply> answer = admitted.ok() ? shared_.api.Poll(request) : admitted;
        if (answer.ok() && !last && TellsNothing(request, *answer)) return false;
        if (answer.ok()) {
          // Who has a task is told when to say that it works on it.
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
      RIVULET_RETURN_IF_ERROR(shared_.security.Identify(*context, &caller));
      return shared_.api.Fail(caller, FromMessage(request->failure()));
    });
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Fetch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override {
    return new FetchStream(shared_, context, *request);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Submit(grpc::CallbackServerContext* context) override {
    return new SubmitStream(shared_, context);
  }

  // From now on it hears what may be told to those who wait.
  void Open() { shared_.api.TellNews(this); }
  // Answers the polls that are held, and holds none any more.
  void Close() {
    shared_.api.TellNews(nullptr);
    held_.Close();
  }
  // What is given to the executors has run; nothing more may come.
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

  Shared shared_;
  HeldPolls held_{*shared_.calls};
};

class Server final : public GrpcServer {
 public:
  Server(CoordinatorApi& api, std::unique_ptr<ServerSecurity> security, const GrpcServerOptions& options)
      : security_(std::move(security)), service_(api, *security_, options), address_(options.listen) {
    if (options.control != nullptr) control_ = std::make_unique<ControlService>(*options.control, *security_);
  }
  ~Server() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen() {
    grpc::ServerBuilder builder;
    SetCommonArguments([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kServerReadBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else a second coordinator would share the port
    // The outer wall: what one connection may have under way at all.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfAConnection);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // of every server that is built from now on
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

  void Stop(std::chrono::milliseconds grace) override {
    if (server_ == nullptr || stopped_.exchange(true)) return;
    service_.Close();
    // Whoever watches hears of it before the connection goes.
    if (grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService()) health->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    server_->Wait();  // every stream has heard its end
    service_.Drain();
    if (control_ != nullptr) control_->Drain();
  }

 private:
  const std::unique_ptr<ServerSecurity> security_;
  Service service_;
  std::unique_ptr<ControlService> control_;  // null: no operator may call
  NetworkAddress address_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(CoordinatorApi& api, GrpcServerOptions options) {
  QuietGrpcLog();
  RIVULET_RETURN_IF_ERROR(CheckRoomForGrpc());
  RIVULET_RETURN_IF_ERROR(options.credentials->Check(options.listen));
  RIVULET_ASSIGN_OR_RETURN(auto security, options.credentials->ForServer(options.admit_sites || options.admit_tiers));
  auto server = std::make_unique<Server>(api, std::move(security), options);
  RIVULET_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace rivulet
