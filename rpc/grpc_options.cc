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

// The details of a status are a google.rpc.Status by custom; this is one, of its code alone. gRPC itself gives none, so
// that a client knows a server's words from those of the library.
std::string SaidByServer(const Status& status) {
  return {'\x08', static_cast<char>(static_cast<int>(status.code()) & 0x7f)};
}

// gRPC 1.51 reads into room that it makes as large as what came at once, and a connection keeps it for as long as it
// lives, though nothing comes any more: half a megabyte for each client that has ever uploaded. Its older way to read,
// which heeds GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, is had by this variable alone. gRPC looks at it once, and the
// environment may change while there is one thread only: before main. Another gRPC, that does not know the word, only
// says so in its log.
[[maybe_unused]] const int kReadsInBoundedPieces = setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", 0);

}  // namespace

// What gRPC logs by itself would stand between the lines of a command; errors reach the user as a Status.
void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

// A channel that leads nowhere and is never freed: one call on it, which fails at once, takes the threads into use.
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
  // Some sentences repeat words of the caller. Lines stay lines, and what does not show in them is replaced.
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
