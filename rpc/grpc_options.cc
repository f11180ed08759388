#include "rpc/grpc_options.h"

#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/generic_stub.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// By convention the details of a status are a google.rpc.Status; this is one with the code alone. gRPC's own statuses
// have none, so a client can tell the server's statuses from the library's.
std::string SaidByServer(const Status& status) {
  return {'\x08', static_cast<char>(static_cast<int>(status.code()) & 0x7f)};
}

// gRPC 1.51 allocates its read buffer for the amount that arrived at once, and a connection keeps it while it
// lives: half a megabyte for each client that ever uploaded. Only this variable selects its older reader,
// which respects GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE. gRPC reads the variable once, and the environment may
// change only while there is one thread: before main. Another version that does not know the word only logs
// that.
[[maybe_unused]] const int kReadsInBoundedPieces = setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);

}  // namespace

// gRPC's own log lines would appear between the lines of a command; errors reach the user as a Status.
void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

// A channel to nowhere that is never freed: one call on it, which fails at once, starts the threads.
void KeepCallbackThreads() {
  static const auto* const kept = [] {
    auto* const channel = new std::shared_ptr<grpc::Channel>(grpc::CreateChannel("", nullptr));
    grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(*channel);
    grpc::ClientContext context;
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    std::promise<void> ended;
    stub.UnaryCall(&context, "/none/none", {}, &request, &response, [&](const grpc::Status&) { ended.set_value(); });
    ended.get_future().wait();
    return channel;
  }();
  static_cast<void>(kept);
}

namespace {

struct Room {
  bool threads = false, files = false, addresses = false;
};

// All are allocated at the same time, because the question is whether so many fit together.
Room MeasureRoom() {
  constexpr size_t kThreads = 16, kFiles = 16;  // 9 and 8 were counted; the rest is reserve
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
  } catch (const std::system_error&) {  // fewer: that is the result
  }
  held.unlock();
  room.threads = threads.size() == kThreads;
  // Each allocating thread takes an arena of the C library beside its stack: addresses, not memory.
  constexpr size_t kAddresses = size_t{1} << 30;
  void* const reserved = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  room.addresses = reserved != MAP_FAILED;
  if (room.addresses) munmap(reserved, kAddresses);
  for (std::thread& thread : threads) thread.join();
  return room;
}

}  // namespace

// Measured once per process: its connections and servers share gRPC's threads.
Status CheckRoomForGrpc() {
  static const Room room = MeasureRoom();
  if (!room.files)
    return ResourceExhausted("this process may open too few files for a connection; raise the limit: ulimit -n 1024");
  if (!room.threads || !room.addresses)
    return ResourceExhausted(
        "the system gives this process too few threads, or too little address space for them. Raise the limit of "
        "processes (ulimit -u) or of virtual memory (ulimit -v, by 1 GiB)");
  return absl::OkStatus();
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  constexpr size_t kLongest = 2000;  // percent-encoded it still fits the 8 KiB of headers a peer accepts
  // Some messages repeat a caller's text. Lines stay lines, and unprintable characters in them are replaced.
  const std::string_view said = Message(status);
  std::string message;
  for (size_t begin = 0; begin <= said.size() && message.size() < kLongest;) {
    const size_t end = std::min(said.find('\n', begin), said.size());
    if (begin > 0) message += '\n';
    message += DisplayText(said.substr(begin, end - begin), kLongest - message.size());
    begin = end + 1;
  }
  return {static_cast<grpc::StatusCode>(status.code()), message, SaidByServer(status)};
}

}  // namespace rivulet
