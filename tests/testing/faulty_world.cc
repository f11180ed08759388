// A world that fails, for whole programs: preloaded (LD_PRELOAD), it lets the n-th call of one kind fail.
//
//   RIVULET_FAULT=KIND:N:ERROR     or KIND:N+:ERROR, all calls from the N-th on; N counts from 1, in each process
//   KIND    open (also fopen), write (also pwrite, ftruncate), sync, rename, mmap, alloc
//   ERROR   EIO, ENOSPC, EINTR, EMFILE, ENOMEM; SHORT: of a write only the first half is written, and it says so
//   RIVULET_FAULT_COUNTS=FILE      a line of each process at its end: calls by kind, "open 3 write 5 …"
//
// Calls inside the C library (the loader, stdio's own writes) go by unseen; so do those before this is loaded, and what
// a thread needs so that a thread_local is destroyed at its end: without that memory the C library ends the process
// itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The allocator under malloc's name, which cannot be looked up: looking up allocates.
extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t count, size_t size);
extern "C" void* __libc_realloc(void* memory, size_t size);

namespace {

enum Kind { kOpen, kWrite, kSync, kRename, kMmap, kAlloc, kKinds };
constexpr std::array<const char*, kKinds> kNames = {"open", "write", "sync", "rename", "mmap", "alloc"};
constexpr int kShort = -1;

std::array<std::atomic<int64_t>, kKinds> calls;
int faulty_kind = kKinds;  // none
int64_t first = 0, last = 0;
int error = 0;

// Where memory that is missing ends the process by the C library's own decision. Its storage is there before any
// thread.
__attribute__((tls_model("initial-exec"))) thread_local bool sheltered = false;

// The error of this call, or 0.
int Fault(Kind kind) {
  if (sheltered) return 0;
  const int64_t n = calls[kind].fetch_add(1, std::memory_order_relaxed) + 1;
  return kind == faulty_kind && n >= first && n <= last ? error : 0;
}

template <typename Function>
Function Next(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define NEXT(function) Next(#function, &(function))

// errno is set and true returned where the call is to fail.
bool Fails(Kind kind) {
  const int fault = Fault(kind);
  if (fault > 0) errno = fault;
  return fault > 0;
}

// Pipes, sockets and event counters do not fill up like disks: only writes into files are counted.
int WriteFault(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? Fault(kWrite) : 0;
}
bool FailsToResize(int fd) {
  const int fault = WriteFault(fd);
  if (fault > 0) errno = fault;
  return fault > 0;
}

int ErrorOf(const char* name) {
  if (std::strcmp(name, "ENOSPC") == 0) return ENOSPC;
  if (std::strcmp(name, "EINTR") == 0) return EINTR;
  if (std::strcmp(name, "EMFILE") == 0) return EMFILE;
  if (std::strcmp(name, "ENOMEM") == 0) return ENOMEM;
  if (std::strcmp(name, "SHORT") == 0) return kShort;
  return EIO;
}

__attribute__((constructor)) void Begin() {
  const char* fault = std::getenv("RIVULET_FAULT");
  if (fault == nullptr) return;
  const char* const n = std::strchr(fault, ':');
  const char* const name = n == nullptr ? nullptr : std::strchr(n + 1, ':');
  if (name == nullptr) return;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (std::strncmp(fault, kNames[kind], static_cast<size_t>(n - fault)) != 0) continue;
    first = std::atoll(n + 1);
    last = name[-1] == '+' ? INT64_MAX : first;
    error = ErrorOf(name + 1);
    for (auto& count : calls) count = 0;
    faulty_kind = static_cast<int>(kind);
  }
}

__attribute__((destructor)) void End() {
  const char* path = std::getenv("RIVULET_FAULT_COUNTS");
  faulty_kind = kKinds;
  if (path == nullptr) return;
  char line[256];
  size_t length = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    length += static_cast<size_t>(std::snprintf(line + length, sizeof line - length, "%s %lld ", kNames[kind],
                                                static_cast<long long>(calls[kind])));
  }
  line[length - 1] = '\n';
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) return;
  if (::write(fd, line, length) < 0) std::_Exit(3);
  ::close(fd);
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

#define OPEN(function)                                            \
  int function(const char* path, int flags, ...) {                \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const mode_t mode = ModeOf(flags, arguments);                 \
    va_end(arguments);                                            \
    return Fails(kOpen) ? -1 : NEXT(function)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
#undef OPEN

FILE* fopen(const char* path, const char* mode) { return Fails(kOpen) ? nullptr : NEXT(fopen)(path, mode); }
FILE* fopen64(const char* path, const char* mode) { return Fails(kOpen) ? nullptr : NEXT(fopen64)(path, mode); }

ssize_t write(int fd, const void* bytes, size_t size) {
  const int fault = WriteFault(fd);
  if (fault == kShort && size > 1) size /= 2;
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : NEXT(write)(fd, bytes, size);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  const int fault = WriteFault(fd);
  if (fault == kShort && size > 1) size /= 2;
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : NEXT(pwrite)(fd, bytes, size, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  const int fault = WriteFault(fd);
  if (fault == kShort && size > 1) size /= 2;
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : NEXT(pwrite64)(fd, bytes, size, offset);
}
int ftruncate(int fd, off_t size) noexcept { return FailsToResize(fd) ? -1 : NEXT(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) noexcept { return FailsToResize(fd) ? -1 : NEXT(ftruncate64)(fd, size); }

int fsync(int fd) { return Fails(kSync) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return Fails(kSync) ? -1 : NEXT(fdatasync)(fd); }

int rename(const char* from, const char* to) noexcept { return Fails(kRename) ? -1 : NEXT(rename)(from, to); }

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return Fails(kMmap) ? MAP_FAILED : NEXT(mmap)(address, size, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd, off64_t offset) noexcept {
  return Fails(kMmap) ? MAP_FAILED : NEXT(mmap64)(address, size, protection, flags, fd, offset);
}

int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* library) {
  using Register = int (*)(void (*)(void*), void*, void*);
  static const auto next = reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl"));
  sheltered = true;
  const int result = next(destructor, object, library);
  sheltered = false;
  return result;
}

void* malloc(size_t size) noexcept { return Fails(kAlloc) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept { return Fails(kAlloc) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) noexcept { return Fails(kAlloc) ? nullptr : __libc_realloc(memory, size); }

}  // extern "C"
