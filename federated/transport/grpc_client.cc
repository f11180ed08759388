#include "federated/transport/grpc_client.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/io/crc32c.h"
#include "federated/transport/control_messages.h"
#include "federated/transport/grpc_control.h"
#include "federated/transport/grpc_options.h"
#include "federated/transport/messages.h"
#include "federated/transport/security.h"
#include "federated/updates/block_crcs.h"
#include "proto/rpc/control.grpc.pb.h"
#include "proto/rpc/coordinator.grpc.pb.h"

namespace rivulet {

namespace {

// The details of a status are a google.rpc.Status by custom; this is one, of its code alone. gRPC itself gives none, so
// that a client knows a server's words from those of the library.
std::string SaidByServer(const Status& status) {
  return {'\x08', static_cast<char>(static_cast<int>(status.code()) & 0x7f)};
}

}  // namespace

namespace {

// gRPC 1.51 reads into room that it makes as large as what came at once, and a connection keeps it for as long as it
// lives, though nothing comes any more: half a megabyte for each client that has ever uploaded. Its older way to read,
// which heeds GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, is had by this variable alone. gRPC looks at it once, and the
// environment may change while there is one thread only: before main. Another gRPC, that does not know the word, only
// says so in its log.
[[maybe_unused]] const int kReadsInBoundedPieces = setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);

}  // namespace

// What gRPC logs by itself would stand between the lines of a command; errors reach the user as a Status.
void QuietGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

namespace {

struct Room {
  bool threads = false, files = false, addresses = false;
};

// All are held together, because the question is whether so many fit at a time.
Room MeasureRoom() {
  constexpr size_t kThreads = 16, kFiles = 16;  // 9 and 8 were counted; the rest is for others
  Room room;
  std::vector<int> files;
  while (files.size() < kFiles) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0) break;
    files.push_back(file);
  }
  room.files = files.size() == kFiles;
  for (const int file : files) close(file);
  std::vector<std::thread> threads;
  std::mutex held;
  held.lock();
  try {
    while (threads.size() < kThreads) threads.emplace_back([&held] { const std::lock_guard<std::mutex> wait(held); });
  } catch (const std::system_error&) {  // fewer: that is the answer
  }
  held.unlock();
  room.threads = threads.size() == kThreads;
  // Beside its stack each thread that allocates takes an arena of the C library: addresses, not memory.
  constexpr size_t kAddresses = size_t{1} << 30;
  void* const reserved = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  room.addresses = reserved != MAP_FAILED;
  if (room.addresses) munmap(reserved, kAddresses);
  for (std::thread& thread : threads) thread.join();
  return room;
}

}  // namespace

// Once a process: its connections and servers share gRPC's threads.
Status CheckRoomForGrpc() {
  static const Room room = MeasureRoom();
  if (!room.files)
    return ResourceExhausted(
        "this process may open too few files to speak to anybody; raise the limit: ulimit -n 1024");
  if (!room.threads || !room.addresses)
    return ResourceExhausted(
        "the system gives this process too few threads, or too few addresses for what they need, to speak to anybody; "
        "raise the limits of processes (ulimit -u) or of virtual memory (ulimit -v, by 1 GiB)");
  return absl::OkStatus();
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  constexpr size_t kLongest = 2000;  // percent-encoded it still fits the 8 KiB of headers a peer accepts
  std::string message(Message(status));
  if (message.size() > kLongest) message = message.substr(0, kLongest) + "…";
  return {static_cast<grpc::StatusCode>(status.code()), message, SaidByServer(status)};
}

namespace {

// The calls in flight, so that Cancel can end them.
// A blocked call cannot be woken otherwise. A call that is added after Cancel is cancelled at once, so none slips
// through between the two.
class Calls {
 public:
  bool Add(grpc::ClientContext* context) {
    MutexLock lock(mutex_);
    if (!cancelled_) contexts_.insert(context);
    return !cancelled_;
  }
  void Remove(grpc::ClientContext* context) {
    MutexLock lock(mutex_);
    contexts_.erase(context);
  }
  void Cancel() {
    MutexLock lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
  }
  bool cancelled() const {
    MutexLock lock(mutex_);
    return cancelled_;
  }

 private:
  mutable Mutex mutex_;
  std::set<grpc::ClientContext*> contexts_ GUARDED_BY(mutex_);
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

// One channel, with what is shown on it. Calls keep theirs; a new one is made when that has been replaced.
struct Channel {
  std::unique_ptr<ChannelSecurity> security;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<rpc::Coordinator::Stub> stub;
  std::unique_ptr<rpc::Control::Stub> control;
};

class Connection {
 public:
  Connection(NetworkAddress coordinator, std::shared_ptr<const TransportCredentials> credentials, std::string proxy)
      : coordinator_(std::move(coordinator)), credentials_(std::move(credentials)), proxy_(std::move(proxy)) {}

  const NetworkAddress& coordinator() const { return coordinator_; }
  // "the coordinator at HOST:PORT cannot be reached", and by which way; never a proxy's password.
  std::string Unreached() const {
    const std::string what = fmt::format("the coordinator at {} cannot be reached", coordinator_.ToString());
    if (proxy_.empty()) return what;
    const size_t user = proxy_.rfind('@');
    return fmt::format("{} through the proxy {}", what,
                       user == std::string::npos ? proxy_ : "http://" + proxy_.substr(user + 1));
  }
  Calls& calls() { return calls_; }

  // A lost connection is made again in the background, but gRPC reads its sockets only while somebody waits in a call,
  // and a call ends at once while the last attempt has failed. A handshake of several messages would never be through:
  // so a call waits for the attempt first, which moves it.
  std::shared_ptr<Channel> channel() {
    const std::shared_ptr<Channel> current = Current();
    const auto end = std::chrono::system_clock::now() + kAttempt;
    while (!calls_.cancelled() && std::chrono::system_clock::now() < end &&
           current->channel->GetState(true) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      current->channel->WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE, std::chrono::system_clock::now() + kSlice);
    }
    return current;
  }

 private:
  static constexpr std::chrono::milliseconds kAttempt{2000};  // longer than the longest pause between two attempts
  static constexpr std::chrono::milliseconds kSlice{100};     // after which it is seen that the client is to stop

  std::shared_ptr<Channel> Current() {
    MutexLock lock(mutex_);
    if (channel_ == nullptr || channel_->security->Stale(false)) Open();
    return channel_;
  }
  void Open() REQUIRES(mutex_) {
    grpc::ChannelArguments arguments;
    SetCommonArguments([&](const char* name, int value) { arguments.SetInt(name, value); });
    // A coordinator that was restarted is found again within seconds.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20'000);  // how long one attempt may take, for all its name
    // Clients of one process do not share a connection: each stands for a machine of its own.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, proxy_.empty() ? 0 : 1);
    if (!proxy_.empty()) arguments.SetString(GRPC_ARG_HTTP_PROXY, proxy_);
    channel_ = std::make_shared<Channel>();
    channel_->security = credentials_->ForChannel(coordinator_);
    channel_->channel =
        grpc::CreateCustomChannel(coordinator_.ToString(), channel_->security->credentials(), arguments);
    channel_->stub = rpc::Coordinator::NewStub(channel_->channel);
    channel_->control = rpc::Control::NewStub(channel_->channel);
  }

  const NetworkAddress coordinator_;
  const std::shared_ptr<const TransportCredentials> credentials_;
  const std::string proxy_;
  Calls calls_;
  Mutex mutex_;
  std::shared_ptr<Channel> channel_ GUARDED_BY(mutex_);
};

// What keeps a connection from coming about, told from gRPC's message: it has no codes for it.
std::string_view WhyLost(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"HTTP proxy returned response code 407", "the proxy wants a name and a password"},
      {"HTTP proxy returned response code", "the proxy does not connect to it"},
      {"Connection refused", "nothing listens there"},
      {"DNS resolution failed", "this machine cannot find its name"},
      {"Name or service not known", "this machine cannot find its name"},
      {"unreachable", "there is no way to it from this machine's network"},
      {"No route to host", "there is no way to it from this machine's network"},
      {"Too many open files", "this process has too many files open"},
      {"rong version number", "it does not speak TLS; start it with --tls, or say --insecure here"},
      {"WRONG_VERSION_NUMBER", "it does not speak TLS; start it with --tls, or say --insecure here"},
      {"imeout", "it did not answer in time"},
      {"imed out", "it did not answer in time"},
      {"FD Shutdown", "it did not answer in time"},
  };
  for (const auto& [words, reason] : kReasons) {
    if (message.find(words) != std::string_view::npos) return reason;
  }
  return "";
}

// One call: its context, registered for Cancel, and what its end means.
class Call {
 public:
  Call(std::shared_ptr<Connection> connection, std::chrono::milliseconds timeout)
      : connection_(std::move(connection)),
        channel_(connection_->channel()),
        deadline_(std::chrono::system_clock::now() + timeout) {
    context_.set_deadline(deadline_);
    if (!connection_->calls().Add(&context_)) context_.TryCancel();
  }
  ~Call() { connection_->calls().Remove(&context_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }
  rpc::Coordinator::Stub& stub() { return *channel_->stub; }
  rpc::Control::Stub& control() { return *channel_->control; }

  // A client acts by the code alone: UNAVAILABLE means try again. So everything that only says that the connection is
  // gone, in whichever of its ways gRPC says it, becomes that one code, and what the coordinator itself has answered
  // keeps its own.
  Status End(const grpc::Status& status) const {
    const bool said = status.ok() || !status.error_details().empty();  // by the coordinator
    if (said) channel_->security->Answered();
    if (status.ok()) return absl::OkStatus();
    if (connection_->calls().cancelled()) return Cancelled("the connection is being closed");
    const std::string& message = status.error_message();
    const auto lost = [&](std::string_view why) { return Unavailable("{}: {}", connection_->Unreached(), why); };
    switch (status.error_code()) {
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        if (std::chrono::system_clock::now() >= deadline_) return lost("it did not answer in time");
        break;
      // A server that goes away ends its calls in any of these ways.
      case grpc::StatusCode::UNAVAILABLE:
        if (!said) return lost(Why(message));
        break;
      case grpc::StatusCode::CANCELLED:
        return lost(Why(message));
      case grpc::StatusCode::UNKNOWN:
        if (message == "Stream removed") return lost("the connection was lost");
        break;
      case grpc::StatusCode::INTERNAL:
        if (message.starts_with("Received RST_STREAM")) return lost("the connection was lost");
        break;
      // What this side shows is refused, and has been replaced a moment ago: the next call shows the new one.
      case grpc::StatusCode::UNAUTHENTICATED:
        if (channel_->security->Stale(true))
          return lost("the certificate has been replaced; the next call shows the new one");
        break;
      case grpc::StatusCode::UNIMPLEMENTED:
        if (!said)
          return absl::UnimplementedError(
              fmt::format("whoever listens at {} does not know this call; install the same version at both ends",
                          connection_->coordinator().ToString()));
        break;
      default:
        break;
    }
    return Status(static_cast<absl::StatusCode>(status.error_code()), ToAbsl(message));
  }

 private:
  std::string Why(std::string_view message) const {
    if (const std::string_view known = WhyLost(message); !known.empty()) return std::string(known);
    std::string refusal = channel_->security->Refusal();
    return refusal.empty() ? "the connection was lost" : refusal;
  }

  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Channel> channel_;
  std::chrono::system_clock::time_point deadline_;
  grpc::ClientContext context_;
};

// The destructor cancels and finishes: a stream that is left open keeps its place at the server.
class Reader final : public ChunkReader {
 public:
  Reader(std::shared_ptr<Connection> connection, std::chrono::milliseconds timeout,
         const rpc::FetchRequestProto& request)
      : call_(std::move(connection), timeout),
        stream_(call_.stub().Fetch(call_.context(), request)),
        position_(request.offset()) {}
  ~Reader() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  // Reads the first chunk, so that a refusal shows at Fetch.
  Status Begin() {
    if (!stream_->Read(&message_)) return Finish();
    if (message_.total_bytes() < position_) {
      return DataLoss("the coordinator says a blob has {} bytes, and was asked from byte {}", message_.total_bytes(),
                      position_);
    }
    total_bytes_ = message_.total_bytes();
    fresh_ = true;
    return absl::OkStatus();
  }

  int64_t total_bytes() const override { return total_bytes_; }

  StatusOr<std::span<const std::byte>> Next() override {
    while (stream_ != nullptr) {
      if (!fresh_ && !stream_->Read(&message_)) {
        RIVULET_RETURN_IF_ERROR(Finish());
        break;
      }
      fresh_ = false;
      if (message_.data().empty()) continue;
      // Damaged on the way, and not what the coordinator keeps: the same bytes can be had again.
      if (Crc32c(message_.data()) != message_.crc()) {
        return DataLoss("the {} bytes from byte {} of a download came damaged", message_.data().size(), position_);
      }
      position_ += static_cast<int64_t>(message_.data().size());
      if (position_ > total_bytes_) {
        return DataLoss("the coordinator sent more than the {} bytes it announced", total_bytes_);
      }
      return std::as_bytes(std::span(message_.data()));
    }
    return std::span<const std::byte>();
  }

 private:
  // OK: everything announced has come.
  Status Finish() {
    const Status end = call_.End(stream_->Finish());
    stream_.reset();
    if (!end.ok()) return end;
    if (position_ != total_bytes_ || total_bytes_ < 0) {
      return Unavailable("a download ended at byte {} of {}", position_, total_bytes_);
    }
    return absl::OkStatus();
  }

  Call call_;
  std::unique_ptr<grpc::ClientReader<rpc::ChunkProto>> stream_;
  rpc::ChunkProto message_;
  bool fresh_ = false;  // message_ holds a chunk not yet given
  int64_t position_;
  int64_t total_bytes_ = -1;
};

class Writer final : public ChunkWriter {
 public:
  Writer(std::shared_ptr<Connection> connection, std::chrono::milliseconds timeout)
      : call_(std::move(connection), timeout), stream_(call_.stub().Submit(call_.context())) {}
  ~Writer() override {
    if (stream_ == nullptr) return;
    call_.context()->TryCancel();
    (void)stream_->Finish();
  }

  Status Begin(rpc::SubmitMessageProto header) {
    rpc::SubmitReplyProto reply;
    const int64_t bytes = header.header().submission().bytes();
    if (!stream_->Write(header) || !stream_->Read(&reply)) return Ended();
    if (reply.has_result()) {
      RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
      RIVULET_ASSIGN_OR_RETURN(decided_, FromMessage(reply.result()));
      return absl::OkStatus();
    }
    if (!reply.has_staged() || reply.staged().crcs_size() > bytes / BlockCrcs::kBlockBytes) {
      return Internal("the coordinator answered an upload of {} bytes with something other than what is staged of it",
                      bytes);
    }
    staged_.assign(reply.staged().crcs().begin(), reply.staged().crcs().end());
    return absl::OkStatus();
  }

  const SubmitResult* decided() const override { return decided_ ? &*decided_ : nullptr; }
  std::span<const uint32_t> staged_crcs() const override { return staged_; }

  Status Resume(int64_t offset) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    message_.set_resume(offset);
    return stream_->Write(message_) ? absl::OkStatus() : Ended();
  }

  Status Write(std::span<const std::byte> chunk) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    while (!chunk.empty()) {
      const size_t part = std::min(chunk.size(), kChunkBytes);
      message_.set_chunk(chunk.data(), part);
      chunk = chunk.subspan(part);
      if (!stream_->Write(message_)) return Ended();
    }
    return absl::OkStatus();
  }

  StatusOr<SubmitResult> Finish(const Digest& identity) override {
    if (stream_ == nullptr) return FailedPrecondition("this upload has ended");
    message_.set_finish(std::string(identity.AsBytes()));
    rpc::SubmitReplyProto reply;
    if (!stream_->Write(message_) || !stream_->Read(&reply)) return Ended();
    RIVULET_RETURN_IF_ERROR(call_.End(std::exchange(stream_, nullptr)->Finish()));
    if (!reply.has_result()) return Internal("the coordinator answered an upload without a result");
    return FromMessage(reply.result());
  }

 private:
  // The stream broke: the reason the server gave, or the loss of the connection. Never OK.
  Status Ended() {
    const Status end = call_.End(std::exchange(stream_, nullptr)->Finish());
    return end.ok() ? Unavailable("the coordinator ended an upload early") : end;
  }

  Call call_;
  std::unique_ptr<grpc::ClientReaderWriter<rpc::SubmitMessageProto, rpc::SubmitReplyProto>> stream_;
  rpc::SubmitMessageProto message_;
  std::optional<SubmitResult> decided_;
  std::vector<uint32_t> staged_;
};

class Client final : public GrpcClient {
 public:
  explicit Client(const GrpcClientOptions& options)
      : options_(options),
        connection_(std::make_shared<Connection>(options.coordinator, options.credentials, options.proxy)) {}

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    rpc::PollRequestProto message;
    ToMessage(request, &message);
    rpc::PollReplyProto reply;
    Call call(connection_, options_.call_timeout + std::chrono::milliseconds(request.hold_ms));
    RIVULET_RETURN_IF_ERROR(call.End(call.stub().Poll(call.context(), message, &reply)));
    return FromMessage(reply);
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    rpc::FetchRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(blob, request.mutable_id());
    request.set_offset(offset);
    auto reader = std::make_unique<Reader>(connection_, options_.stream_timeout, request);
    RIVULET_RETURN_IF_ERROR(reader->Begin());
    return reader;
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    rpc::SubmitMessageProto message;
    ToMessage(caller, message.mutable_header()->mutable_caller());
    ToMessage(submission, message.mutable_header()->mutable_submission());
    auto writer = std::make_unique<Writer>(connection_, options_.stream_timeout);
    RIVULET_RETURN_IF_ERROR(writer->Begin(std::move(message)));
    return writer;
  }

  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    rpc::FailRequestProto request;
    ToMessage(caller, request.mutable_caller());
    ToMessage(failure, request.mutable_failure());
    rpc::FailReplyProto reply;
    Call call(connection_, options_.call_timeout);
    return call.End(call.stub().Fail(call.context(), request, &reply));
  }

  void Cancel() override { connection_->calls().Cancel(); }

 private:
  GrpcClientOptions options_;
  std::shared_ptr<Connection> connection_;  // readers and writers may outlive this object
};

class ControlClient final : public ControlApi {
 public:
  explicit ControlClient(const GrpcControlOptions& options)
      : options_(options),
        connection_(std::make_shared<Connection>(options.coordinator, options.credentials, options.proxy)) {}

  StatusOr<std::vector<RunState>> Runs(const OperatorCaller&) override {
    rpc::RunsReplyProto reply;
    Call call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Runs(call.context(), {}, &reply)));
    std::vector<RunState> runs;
    for (const rpc::RunStateProto& run : reply.runs()) runs.push_back(FromMessage(run));
    return runs;
  }

  StatusOr<ClientPage> Clients(const OperatorCaller&, const std::string& after) override {
    rpc::ClientsRequestProto request;
    request.set_after(after);
    rpc::ClientsReplyProto reply;
    Call call(connection_, options_.call_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().Clients(call.context(), request, &reply)));
    ClientPage page{.clients = {}, .more = reply.more()};
    for (const rpc::ClientStateProto& client : reply.clients()) page.clients.push_back(FromMessage(client));
    return page;
  }

  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller&) override {
    rpc::AuditReplyProto reply;
    Call call(connection_, options_.call_timeout);
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
    Call call(connection_, options_.call_timeout);
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
    Call call(connection_, options_.start_timeout);
    RIVULET_RETURN_IF_ERROR(call.End(call.control().StartRun(call.context(), request, &reply)));
    return std::move(*reply.mutable_run_id());
  }

 private:
  const GrpcControlOptions options_;
  const std::shared_ptr<Connection> connection_;
};

Status CheckReachable(const NetworkAddress& coordinator, const TransportCredentials& credentials) {
  QuietGrpcLog();
  if (coordinator.port == 0) {
    return InvalidArgument("port 0 in {} is not a coordinator's; give the port it listens on", coordinator.ToString());
  }
  RIVULET_RETURN_IF_ERROR(credentials.Check(coordinator));
  return CheckRoomForGrpc();
}

}  // namespace

StatusOr<std::unique_ptr<GrpcClient>> GrpcClient::Create(GrpcClientOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable(options.coordinator, *options.credentials));
  return std::make_unique<Client>(options);
}

StatusOr<std::unique_ptr<ControlApi>> ConnectControl(GrpcControlOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckReachable(options.coordinator, *options.credentials));
  return std::make_unique<ControlClient>(options);
}

}  // namespace rivulet
