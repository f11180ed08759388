#include "cli/program/early_exit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace rivulet {
namespace {

std::atomic<const char*> running = nullptr;  // the program's name, while a command runs

// Only by write and _exit: other threads still run, and one may hold stderr's lock.
void OnExit() {
  const char* const program = running.load();
  if (program == nullptr) return;
  const std::string line = fmt::format(
      "{}: a library ended the process before the command was done; see --op-library and --algorithm-library\n",
      program);
  // If stderr has no reader, the status still reports the failure.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) _exit(1);
  _exit(1);
}

}  // namespace

EarlyExitGuard::EarlyExitGuard(const char* program) {
  static const bool registered = std::atexit(OnExit) == 0;
  if (registered) running = program;
}

EarlyExitGuard::~EarlyExitGuard() { running = nullptr; }

}  // namespace rivulet
