// A guard against code that ends the process. A library that calls exit(0) in the middle of a command would otherwise
// pass for a command that succeeded.
#pragma once

namespace rivulet {

// While it lives, exit() of whatever status says so on stderr and ends the process with status 1. One at a time, in
// main(). _exit() and quick_exit() go by unseen.
class EarlyExitGuard {
 public:
  explicit EarlyExitGuard(const char* program);  // its name, in front of the sentence; must outlive the process
  ~EarlyExitGuard();
  EarlyExitGuard(const EarlyExitGuard&) = delete;
  EarlyExitGuard& operator=(const EarlyExitGuard&) = delete;
};

}  // namespace rivulet
