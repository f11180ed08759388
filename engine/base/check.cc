#include "engine/base/check.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "engine/base/stack_trace.h"

namespace rivulet::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "fatal: %s:%d: check `%s` failed. %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  PrintStackTrace(2, 1);          // without this function
  std::signal(SIGABRT, SIG_DFL);  // a handler of fatal signals would print the same again
  std::abort();
}

}  // namespace rivulet::internal
