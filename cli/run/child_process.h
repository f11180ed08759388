// A child process that runs this same binary, with its output read through pipes. It has a separate process group, so
// that Ctrl-C on the terminal reaches only the parent. If the parent dies in any way, the child receives SIGTERM.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Use it from one thread, which must outlive it: the child gets its signal when that thread ends.
class ChildProcess {
 public:
  // Runs `rivulet ARGUMENTS…`.
  static StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& arguments);
  ~ChildProcess();  // kills a running child
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Descriptors for polling; -1 once the child has closed it.
  int stdout_fd() const { return streams_[0].fd; }
  int stderr_fd() const { return streams_[1].fd; }
  // Complete lines since the last call; never blocks.
  std::vector<std::string> StdoutLines() { return Lines(streams_[0]); }
  std::vector<std::string> StderrLines() { return Lines(streams_[1]); }

  void Signal(int signal);
  // The exit code once it has ended, or minus the signal that killed it. Never blocks.
  std::optional<int> Exited();

 private:
  struct Stream {
    int fd = -1;
    std::string partial;
  };
  ChildProcess() = default;
  static std::vector<std::string> Lines(Stream& stream);

  pid_t pid_ = -1;
  Stream streams_[2];
  std::optional<int> exit_;
};

}  // namespace rivulet
