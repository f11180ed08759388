// Ctrl-C (and SIGTERM, and the SIGHUP of a terminal that is closed): the first asks for a clean end, the second ends
// the process at once with exit code 1.
//
// The signal handler only writes a byte to a pipe. Code that waits in poll() adds fd(). Other blocking code registers a
// function, which is called once on a separate thread.
#pragma once

#include <functional>
#include <thread>

namespace rivulet {

// One per process at a time. Not thread-safe.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // restores the previous signal handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const;
  // It was SIGTERM, from a service manager, and not Ctrl-C at a terminal.
  bool asked() const;
  int fd() const;  // readable once a signal has come
  // Calls `function` at the first signal, at once if it has come already. Call it once; the data that `function` uses
  // must outlive this object or Forget().
  void Call(std::function<void()> function);
  // No call is made after this returns.
  void Forget();

 private:
  std::thread thread_;
};

}  // namespace rivulet
