// A guard against code that ends the process. A library that calls exit(0) in the middle of a command would otherwise
// look like success.
#pragma once

namespace rivulet {

// While it lives, exit() with any status prints an error on stderr and ends the process with status 1. One at a time,
// in main(). It does not catch _exit() and quick_exit().
class EarlyExitGuard {
 public:
  explicit EarlyExitGuard(const char* program);  // its name, before the message; must outlive the process
  ~EarlyExitGuard();
  EarlyExitGuard(const EarlyExitGuard&) = delete;
  EarlyExitGuard& operator=(const EarlyExitGuard&) = delete;
};

}  // namespace rivulet
