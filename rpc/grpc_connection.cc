#include "rpc/grpc_connection.h"

#include <algorithm>
#include <utility>

namespace rivulet {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

gpr_timespec After(milliseconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(time.count(), GPR_TIMESPAN));
}

}  // namespace

ClientCalls::~ClientCalls() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (watch_.joinable()) watch_.join();
}

bool ClientCalls::Add(grpc::ClientContext* context) {
  MutexLock lock(mutex_);
  if (!cancelled_) calls_[context] = {};
  return !cancelled_;
}

void ClientCalls::Moved(grpc::ClientContext* context, milliseconds patience) {
  MutexLock lock(mutex_);
  const auto call = calls_.find(context);
  if (call == calls_.end()) return;
  call->second.patient_until = Clock::now() + patience;
  if (!std::exchange(watched_, true)) watch_ = std::thread([this] { Watch(); });
  if (call->second.patient_until < wakes_) changed_.NotifyAll();
}

// Wakes when the earliest stream would have stalled without progress. Progress wakes no thread, nor does a new stream
// during a sleep for one that has ended.
void ClientCalls::Watch() {
  MutexLock lock(mutex_);
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = Clock::time_point::max();
    for (auto& [context, call] : calls_) {
      if (call.stalled) continue;
      call.stalled = call.patient_until <= now;
      if (call.stalled) {
        context->TryCancel();
      } else {
        next = std::min(next, call.patient_until);
      }
    }
    wakes_ = next;
    if (next == Clock::time_point::max()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitFor(mutex_, next - now);
    }
  }
}

bool ClientCalls::stalled(grpc::ClientContext* context) const {
  MutexLock lock(mutex_);
  const auto call = calls_.find(context);
  return call != calls_.end() && call->second.stalled;
}

void ClientCalls::Remove(grpc::ClientContext* context) {
  MutexLock lock(mutex_);
  calls_.erase(context);
}

void ClientCalls::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  for (auto& [context, call] : calls_) context->TryCancel();
}

bool ClientCalls::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

ClientChannel::ClientChannel(std::unique_ptr<ChannelSecurity> security, const std::string& address,
                             const grpc::ChannelArguments& arguments)
    : security_(std::move(security)),
      channel_(grpc::CreateCustomChannel(address, security_->credentials(), arguments)),
      raw_(std::make_unique<grpc::GenericStub>(channel_)) {}

// A destroyed channel is not failing any more: this delivers a pending notification, and the queue is empty after it.
ClientChannel::~ClientChannel() {
  raw_.reset();
  channel_.reset();
  news_.Shutdown();
  void* tag;
  bool ok;
  while (news_.Next(&tag, &ok)) {
  }
}

// WaitForStateChange would end by a timer of gRPC's, on the wall clock, while a wait on a queue ends by poll. A pending
// notification cannot be cancelled, so only one is requested.
void ClientChannel::AwaitAttempt(milliseconds slice) {
  {
    MutexLock lock(mutex_);
    if (!std::exchange(asked_, true)) {
      channel_->NotifyOnStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE, gpr_inf_future(GPR_CLOCK_REALTIME), &news_, this);
    }
  }
  void* tag;
  bool ok;
  if (news_.AsyncNext(&tag, &ok, After(slice)) != grpc::CompletionQueue::GOT_EVENT) return;
  MutexLock lock(mutex_);
  asked_ = false;
}

std::string ClientConnection::Unreached() const {
  const std::string what = fmt::format("the {} at {} cannot be reached", what_, server_.ToString());
  if (proxy_.empty()) return what;
  const size_t user = proxy_.rfind('@');
  return fmt::format("{} through the proxy {}", what,
                     user == std::string::npos ? proxy_ : "http://" + proxy_.substr(user + 1));
}

// A lost connection is restored in the background, but gRPC reads its sockets only while a call waits, and a call ends
// at once if the last attempt failed. A handshake of several messages would never finish. So a call first waits for an
// attempt, which advances it. gRPC starts its next attempt by its timer.
std::shared_ptr<ClientChannel> ClientConnection::channel() {
  constexpr milliseconds kAttempt{2000};  // longer than the longest pause between two attempts
  constexpr milliseconds kSlice{100};     // after which the client's stop is noticed
  std::shared_ptr<ClientChannel> current = Current();
  const auto end = steady_clock::now() + kAttempt;
  if (!calls_.cancelled() && current->failing()) current->TryAtOnce();
  while (!calls_.cancelled() && steady_clock::now() < end && current->failing()) current->AwaitAttempt(kSlice);
  return current;
}

std::shared_ptr<ClientChannel> ClientConnection::Current() {
  MutexLock lock(mutex_);
  if (channel_ == nullptr || channel_->security().Stale(false)) Open();
  return channel_;
}

void ClientConnection::Open() {
  grpc::ChannelArguments arguments;
  SetCommonArguments([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetInt(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kClientReadBytes);
  // A restarted server is found again within seconds.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20'000);  // the time limit of one attempt, despite its name
  // Clients of one process do not share a connection: each stands for a separate machine.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, proxy_.empty() ? 0 : 1);
  if (!proxy_.empty()) arguments.SetString(GRPC_ARG_HTTP_PROXY, proxy_);
  channel_ = std::make_shared<ClientChannel>(credentials_->ForChannel(server_), server_.ToString(), arguments);
}

namespace {

// The cause of a failed connection, derived from gRPC's message: it has no codes for it.
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

}  // namespace

ClientCall::ClientCall(std::shared_ptr<ClientConnection> connection, milliseconds timeout)
    : connection_(std::move(connection)), channel_(connection_->channel()), deadline_(Clock::now() + timeout) {
  context_.set_deadline(After(timeout));
  Register();
}

ClientCall::ClientCall(std::shared_ptr<ClientConnection> connection, Stream stream)
    : connection_(std::move(connection)), channel_(connection_->channel()), patience_(stream.patience) {
  Register();
}

void ClientCall::Register() {
  if (!connection_->calls().Add(&context_)) context_.TryCancel();
}

Status ClientCall::End(const grpc::Status& status) {
  const bool said = status.ok() || !status.error_details().empty();  // by the server
  if (said) channel_->security().Answered();
  if (status.ok()) return absl::OkStatus();
  if (connection_->calls().cancelled()) return Cancelled("the connection is being closed");
  const std::string& message = status.error_message();
  const auto lost = [&](std::string_view why) { return Unavailable("{}: {}", connection_->Unreached(), why); };
  if (connection_->calls().stalled(&context_)) {
    return lost(fmt::format("nothing has moved for {} s", std::chrono::duration<double>(patience_).count()));
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      if (Clock::now() >= deadline_) return lost("it did not answer in time");
      break;
    // A server that goes away ends its calls with any of these.
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
    // This side's certificate was refused, and has just been replaced: the next call shows the new one.
    case grpc::StatusCode::UNAUTHENTICATED:
      if (channel_->security().Stale(true))
        return lost("the certificate has been replaced; the next call shows the new one");
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      if (!said)
        return absl::UnimplementedError(
            fmt::format("the server at {} does not know this call; install the same version at both ends",
                        connection_->server().ToString()));
      break;
    default:
      break;
  }
  return Status(static_cast<absl::StatusCode>(status.error_code()), ToAbsl(message));
}

std::string ClientCall::Why(std::string_view message) const {
  if (const std::string_view known = WhyLost(message); !known.empty()) return std::string(known);
  std::string refusal = channel_->security().Refusal();
  return refusal.empty() ? "the connection was lost" : refusal;
}

Status CheckReachable(std::string_view what, const NetworkAddress& server, const TransportCredentials& credentials) {
  PrepareGrpc();
  if (server.port == 0) {
    return InvalidArgument("port 0 in {} is not a {}'s; give the port it listens on", server.ToString(), what);
  }
  RIVULET_RETURN_IF_ERROR(credentials.Check(server));
  return CheckRoomForGrpc();
}

}  // namespace rivulet
