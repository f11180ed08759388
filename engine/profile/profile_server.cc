#include "engine/profile/profile_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>

namespace rivulet {
namespace {

constexpr std::string_view kRequest = "profile ";
constexpr std::string_view kError = "error: ";
constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr int kRequestMs = 2000;  // for a request to arrive whole
constexpr int kStoppedMs = 1000;  // interval between checks whether the requested process is stopped
constexpr int kLookMs = 100;      // interval between checks whether the requester still exists

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// In the abstract namespace: there is no file to protect, to find or to leave behind, and the name goes with the
// process.
struct Address {
  sockaddr_un address = {};
  socklen_t length = 0;
};
Address AddressOf(int pid) {
  Address made;
  made.address.sun_family = AF_UNIX;
  const std::string name = fmt::format("rivulet-profile-{}", pid);
  // A leading zero byte: the abstract namespace.
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

// A profile shows the model's graph. Abstract names have no permissions, so the kernel is asked who is at the other
// end.
bool MayTalkTo(int socket, ucred& peer) {
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0;
}

// All of it, or false: the other end has gone.
bool Send(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

ProfileServer::ProfileServer(std::string title, int socket, int wake_read, int wake_write)
    : title_(std::move(title)), socket_(socket), wake_read_(wake_read), wake_write_(wake_write) {
  thread_ = std::thread([this] { Serve(); });
}

StatusOr<std::unique_ptr<ProfileServer>> ProfileServer::Start(std::string title) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address address = AddressOf(getpid());
  if (listener.get() < 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) != 0 ||
      listen(listener.get(), 4) != 0) {
    return Unavailable("this process cannot be profiled from outside: {}", std::strerror(errno));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Unavailable("this process cannot be profiled from outside: {}", std::strerror(errno));
  return std::unique_ptr<ProfileServer>(new ProfileServer(std::move(title), listener.Release(), ends[0], ends[1]));
}

ProfileServer::~ProfileServer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    recorded_.NotifyAll();
  }
  [[maybe_unused]] const ssize_t written = write(wake_write_, "!", 1);
  thread_.join();
  for (const int fd : {socket_, wake_read_, wake_write_}) close(fd);
}

// The first look is a relaxed load, as this is asked in every step of every thread; only when somebody waits do threads
// contend for the steps that are wanted.
bool ProfileServer::Wants() {
  if (!MayWant()) return false;
  int64_t open = open_steps_.load();
  while (open > 0)
    if (open_steps_.compare_exchange_weak(open, open - 1)) return true;
  return false;
}

void ProfileServer::Take(const RecordedRun& run) {
  MutexLock lock(mutex_);
  if (builder_ == nullptr) return;  // the requester has disconnected
  builder_->AddRun(run.spans, run.begin, run.end, run.dropped);
  builder_->AddStep(static_cast<double>(run.end - run.begin) * 1e-9);
  const std::thread::id self = std::this_thread::get_id();
  if (std::find(threads_.begin(), threads_.end(), self) == threads_.end()) threads_.push_back(self);
  recorded_.NotifyAll();
}

// One request at a time, on a thread of its own. The pipe is what wakes poll when the server is to end.
void ProfileServer::Serve() {
  for (;;) {
    pollfd ends[2] = {{socket_, POLLIN, 0}, {wake_read_, POLLIN, 0}};
    if (poll(ends, 2, -1) < 0) continue;
    if (ends[1].revents != 0) return;
    const Descriptor peer(accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC));
    ucred credentials = {};
    if (peer.get() >= 0 && MayTalkTo(peer.get(), credentials)) Answer(peer.get());
  }
}

void ProfileServer::Answer(int peer) {
  std::string request;
  // A peer that connects and says nothing is let go after two seconds.
  while (request.find('\n') == std::string::npos && request.size() < 64) {
    pollfd ends[2] = {{peer, POLLIN, 0}, {wake_read_, POLLIN, 0}};
    if (poll(ends, 2, kRequestMs) <= 0 || ends[1].revents != 0) return;
    char bytes[64];
    const ssize_t got = recv(peer, bytes, sizeof(bytes), 0);
    if (got <= 0) return;
    request.append(bytes, static_cast<size_t>(got));
  }
  int64_t steps = 0;
  const char* const begin = request.data() + std::min(kRequest.size(), request.size());
  const auto [end, error] = std::from_chars(begin, request.data() + request.size(), steps);
  if (!request.starts_with(kRequest) || error != std::errc() || *end != '\n' || steps < 1 ||
      steps > kMostProfiledSteps) {
    Send(peer, fmt::format("{}a request is '{}STEPS' with 1 to {} steps\n", kError, kRequest, kMostProfiledSteps));
    return;
  }

  Profile profile;
  {
    MutexLock lock(mutex_);
    builder_ = std::make_unique<ProfileBuilder>();
    threads_.clear();
    open_steps_.store(steps);
    // The wait is short and repeated, to notice that whoever asked has gone: the steps would be recorded for nobody.
    while (builder_->steps() < steps && !stopping_) {
      recorded_.WaitFor(mutex_, std::chrono::milliseconds(kLookMs));
      pollfd end_of_peer = {peer, POLLRDHUP, 0};
      if (poll(&end_of_peer, 1, 0) > 0) break;
    }
    open_steps_.store(0);
    profile = builder_->Build();
    profile.threads = static_cast<int>(std::max<size_t>(threads_.size(), 1));
    builder_.reset();
  }
  if (profile.steps == 0) {
    Send(peer, fmt::format("{}the process ended before a step was done\n", kError));
    return;
  }
  profile.title = title_;
  // A measurement would slow the run; the requester is on the same machine and measures itself.
  profile.roofline.flops_per_second = 1;
  profile.roofline.bandwidths = {{1, 1}};
  Send(peer, ProfileToJson(profile));
}

namespace {

// A process that is stopped would never finish a step.
Status CheckNotStopped(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t state = line.rfind(')');  // the name before it may hold anything
  if (state == std::string::npos || state + 2 >= line.size() || (line[state + 2] != 'T' && line[state + 2] != 't'))
    return absl::OkStatus();
  return FailedPrecondition("process {} is stopped; continue it first: kill -CONT {}", pid, pid);
}

}  // namespace

StatusOr<Profile> ProfileOfProcess(int pid, int64_t steps, int interrupt) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return NotFound("there is no process {}", pid);
  RIVULET_RETURN_IF_ERROR(CheckNotStopped(pid));
  const Descriptor peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address address = AddressOf(pid);
  // A queue that is full answers at once instead of making this process wait.
  if (peer.get() >= 0) fcntl(peer.get(), F_SETFL, O_NONBLOCK);
  const bool connected =
      peer.get() >= 0 && connect(peer.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) == 0;
  if (!connected && errno == EAGAIN) return Unavailable("process {} is being asked for other profiles already", pid);
  if (!connected) {
    return NotFound(
        "process {} does not listen for profiles: it must be a rivulet simulate, client or coordinator on this machine",
        pid);
  }
  ucred credentials = {};
  if (!MayTalkTo(peer.get(), credentials) || credentials.pid != pid)
    return PermissionDenied("process {} belongs to another user, or another process answers for it", pid);
  if (!Send(peer.get(), fmt::format("{}{}\n", kRequest, steps)))
    return PermissionDenied("process {} does not take requests from this user", pid);
  std::string answer;
  for (;;) {
    pollfd ends[2] = {{peer.get(), POLLIN, 0}, {interrupt, POLLIN, 0}};
    const int ready = poll(ends, interrupt >= 0 ? 2 : 1, kStoppedMs);
    if (ready == 0) RIVULET_RETURN_IF_ERROR(CheckNotStopped(pid));
    if (ready <= 0) continue;
    if (interrupt >= 0 && ends[1].revents != 0) return Cancelled("the profile of process {} was given up", pid);
    char bytes[65536];
    const ssize_t got = recv(peer.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    answer.append(bytes, static_cast<size_t>(got));
    if (answer.size() > kMostAnswerBytes)
      return InvalidArgument("process {} answers with more than {} MB", pid, kMostAnswerBytes >> 20);
  }
  if (answer.empty()) return Unavailable("process {} ended, or does not take requests from this user", pid);
  if (answer.starts_with(kError)) {
    const size_t end = answer.find('\n');
    return Unavailable("process {}: {}", pid, answer.substr(kError.size(), end - kError.size()));
  }
  StatusOr<Profile> profile = ProfileFromJson(answer);
  if (!profile.ok()) return Annotate(profile.status(), fmt::format("process {}", pid));
  return profile;
}

}  // namespace rivulet
