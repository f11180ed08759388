#include "engine/base/stack_trace.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/debugging/symbolize.h"

namespace rivulet {
namespace {

constexpr int kFrames = 64;
constexpr size_t kSignalStackBytes = 64 * 1024;  // the symboliser's buffers are on the stack

void Write(int file_descriptor, const char* text, size_t length) {
  while (length > 0) {
    const ssize_t written = write(file_descriptor, text, length);
    if (written <= 0) return;
    text += written;
    length -= static_cast<size_t>(written);
  }
}
void Write(int file_descriptor, const char* text) { Write(file_descriptor, text, std::strlen(text)); }

// printf may not be called from a signal handler.
void WriteHex(int file_descriptor, uintptr_t value) {
  char digits[2 + 2 * sizeof(value)];
  char* begin = digits + sizeof(digits);
  do {
    *--begin = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  *--begin = 'x';
  *--begin = '0';
  Write(file_descriptor, begin, static_cast<size_t>(digits + sizeof(digits) - begin));
}

const char* NameOf(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "of another kind";
  }
}

// From the call that goes on at `from` (or the first, when there is none such), less `skip`. `interrupted`: the first
// call printed is one that a signal came into, not one that has called another.
void Trace(int file_descriptor, const void* from, int skip, bool interrupted) {
  // The unwinder of glibc reads unwind tables; absl's own follows frame pointers, which optimised code has not.
  void* frames[kFrames];
  const int depth = backtrace(frames, kFrames);
  int first = 0;
  while (first < depth && frames[first] != from) ++first;
  first = (first == depth ? 0 : first) + skip;
  for (int i = first; i < depth; ++i) {
    char name[1024];
    Write(file_descriptor, "    @ ");
    WriteHex(file_descriptor, reinterpret_cast<uintptr_t>(frames[i]));
    Write(file_descriptor, "  ");
    // A return address may lie behind the last byte of a function whose last call does not return.
    const bool exact = interrupted && i == first;
    const void* place = static_cast<const char*>(frames[i]) - (exact ? 0 : 1);
    Write(file_descriptor, absl::Symbolize(place, name, sizeof(name)) ? name : "(unknown)");
    Write(file_descriptor, "\n");
  }
}

// Only what may be called from a signal handler: the heap may be what is broken.
void HandleFatalSignal(int signal, siginfo_t* info, void*) {
  Write(STDERR_FILENO, "fatal: signal ");
  Write(STDERR_FILENO, NameOf(signal));
  if (signal != SIGABRT) {
    Write(STDERR_FILENO, " (address ");
    WriteHex(STDERR_FILENO, reinterpret_cast<uintptr_t>(info->si_addr));
    Write(STDERR_FILENO, ")");
  }
  Write(STDERR_FILENO, "\n");
  // Without this function: the kernel called it with a return address that leads back to the interrupted one.
  Trace(STDERR_FILENO, __builtin_return_address(0), 1, true);
  raise(signal);  // SA_RESETHAND: the second time it ends the process
}

}  // namespace

__attribute__((noinline)) void PrintStackTrace(int file_descriptor, int skip) {
  Trace(file_descriptor, __builtin_return_address(0), skip, false);
}

void InstallFatalSignalHandler() {
  void* first[1];
  backtrace(first, 1);  // the first call loads the unwinder, which no signal handler may do
  // A stack of its own, so that an overflow of the main thread's is told too. It is there for the life of the process,
  // and kept where LeakSanitizer sees it.
  stack_t stack = {};
  stack.ss_size = kSignalStackBytes;
  static void* const kept = std::malloc(kSignalStackBytes);
  stack.ss_sp = kept;
  struct sigaction action = {};
  action.sa_sigaction = HandleFatalSignal;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  if (stack.ss_sp != nullptr && sigaltstack(&stack, nullptr) == 0) action.sa_flags |= SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace rivulet
