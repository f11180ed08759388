#include "engine/io/mapped_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "engine/base/check.h"

namespace rivulet {
namespace {

// The thread's present copy, and the position to resume at after a fault. If a mapped file shrinks, a read
// of the missing part raises SIGBUS, and no lock can prevent this. So reads are copies under a guard that
// turns the signal into an error. Otherwise one truncated file would end a process that serves a thousand
// clients.
struct CopyGuard {
  sigjmp_buf go_on;
  uintptr_t begin, end;
};
thread_local CopyGuard* active_guard = nullptr;
struct sigaction previous_action;

void OnBusError(int signal_number, siginfo_t* info, void* context) {
  CopyGuard* const guard = active_guard;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // Some systems round the address down to its page.
  if (guard != nullptr && address >= (guard->begin & ~uintptr_t{0xFFFF}) && address < guard->end) {
    active_guard = nullptr;
    // The handler is left by a jump, so the signals that it blocked are let through again here. Saving the mask with
    // the jump instead would cost a system call for every record.
    pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(guard->go_on, 1);
  }
  // Not ours: as if we were not here.
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
  } else {
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
  }
}

void InstallHandlerOnce() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &previous_action) == 0;
  }();
  RIVULET_CHECK(installed);
}

// A plain copy that no sanitizer sees or replaces, because it may be left in its middle.
#if defined(__x86_64__)
template <typename Word>
inline void RawMove(std::byte* to, const std::byte* from) {
  Word word;
  asm volatile("mov (%1), %0" : "=r"(word) : "r"(from) : "memory");
  asm volatile("mov %1, (%0)" : : "r"(to), "r"(word) : "memory");
}

inline void RawCopy(std::byte* to, const std::byte* from, size_t bytes) {
  // A record's header and checksum: two words that may overlap, in a fraction of what the string instruction takes
  // before its first byte.
  if (bytes >= 4 && bytes <= 16) {
    if (bytes >= 8) {
      RawMove<uint64_t>(to, from);
      RawMove<uint64_t>(to + bytes - 8, from + bytes - 8);
    } else {
      RawMove<uint32_t>(to, from);
      RawMove<uint32_t>(to + bytes - 4, from + bytes - 4);
    }
    return;
  }
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#else
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) void RawCopy(std::byte* to,
                                                                                      const std::byte* from,
                                                                                      size_t bytes) {
  volatile std::byte* out = to;
  const volatile std::byte* in = from;
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), in += sizeof(uint64_t), out += sizeof(uint64_t)) {
    uint64_t word;
    __builtin_memcpy(&word, const_cast<const std::byte*>(in), sizeof(word));
    __builtin_memcpy(const_cast<std::byte*>(out), &word, sizeof(word));
  }
  for (; bytes > 0; --bytes) *out++ = *in++;
}
#endif

// Pieces are adjacent ranges from `from` on.
__attribute__((noinline)) bool GuardedCopy(const std::byte* from, std::span<std::byte> first,
                                           std::span<std::byte> second, std::span<std::byte> third) {
  CopyGuard guard;
  guard.begin = reinterpret_cast<uintptr_t>(from);
  guard.end = guard.begin + first.size() + second.size() + third.size();
  if (sigsetjmp(guard.go_on, 0) != 0) return false;
  active_guard = &guard;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  RawCopy(first.data(), from, first.size());
  if (!second.empty()) RawCopy(second.data(), from + first.size(), second.size());
  if (!third.empty()) RawCopy(third.data(), from + first.size() + second.size(), third.size());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  active_guard = nullptr;
  return true;
}

Status RefuseUnlessRegular(mode_t mode) {
  if (S_ISREG(mode)) return absl::OkStatus();
  if (S_ISDIR(mode)) return InvalidArgument("a folder, not a file");
  if (S_ISFIFO(mode)) return InvalidArgument("a pipe cannot be read by position; write its content to a file first");
  if (S_ISSOCK(mode)) return InvalidArgument("a socket cannot be read by position; write its content to a file first");
  return InvalidArgument("a device cannot be read by position; write its content to a file first");
}

Status SystemError(int error) {
  if (error == ENOENT || error == ENOTDIR) return NotFound("no such file");
  if (error == EACCES || error == EPERM) return PermissionDenied("{}", std::strerror(error));
  return Internal("{}", std::strerror(error));
}

}  // namespace

// Looked at before and after opening: the name may have come to mean something else in between.
StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  struct stat info;
  // Before opening: opening a pipe can block, opening a device can act.
  if (stat(path.c_str(), &info) != 0) return SystemError(errno);
  RIVULET_RETURN_IF_ERROR(RefuseUnlessRegular(info.st_mode));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(errno);
  // The mapping stays when the descriptor is closed.
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } const closer{fd};
  std::unique_ptr<MappedFile> file(new MappedFile(path));
  if (fstat(fd, &info) != 0) return SystemError(errno);
  RIVULET_RETURN_IF_ERROR(RefuseUnlessRegular(info.st_mode));
  file->device_ = info.st_dev;
  file->inode_ = info.st_ino;
  file->modified_nanoseconds_ = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (info.st_size > 0) {
    const auto size = static_cast<size_t>(info.st_size);
    void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return SystemError(errno);
    file->data_ = static_cast<const std::byte*>(data);
    file->size_ = size;
  }
  InstallHandlerOnce();
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

uint64_t MappedFile::CurrentSize() const {
  struct stat info;
  if (stat(path_.c_str(), &info) != 0 || info.st_dev != device_ || info.st_ino != inode_) return size_;
  return static_cast<uint64_t>(info.st_size);
}

bool MappedFile::Copy(uint64_t offset, std::span<std::byte> out) const { return Copy(offset, out, {}, {}); }

bool MappedFile::Copy(uint64_t offset, std::span<std::byte> first, std::span<std::byte> second,
                      std::span<std::byte> third) const {
  const uint64_t bytes = first.size() + second.size() + third.size();
  RIVULET_CHECK(offset <= size_ && bytes <= size_ - offset, "{} bytes at {} of {}", bytes, offset, size_);
  return bytes == 0 || GuardedCopy(data_ + offset, first, second, third);
}

}  // namespace rivulet
