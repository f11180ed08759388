// Ctrl-C (and SIGTERM, and the SIGHUP of a closed terminal): the first signal requests a clean end, the second ends the
// process at once with exit code 1.
//
// The signal handler only writes a byte to a pipe. Code that waits in poll() adds fd(). Other blocking code registers a
// function, which is called once on a separate thread.
#pragma once

#include <functional>
#include <thread>

namespace rivulet {

// Handler of the signals. One per process at a time. Not thread-safe.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // restores the previous signal handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const;
  // The signal was SIGTERM, from a service manager, not Ctrl-C at a terminal.
  bool asked() const;
  int fd() const;  // readable after a signal
  // Calls `function` at the first signal, or at once if it has already come. Call it once; the data that `function`
  // uses must outlive this object or Forget().
  void Call(std::function<void()> function);
  // No call is made after this returns.
  void Forget();

 private:
  std::thread thread_;
};

}  // namespace rivulet
