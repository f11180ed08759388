#include "cli/run/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace rivulet {

StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& arguments) {
  // All of the child's data is made before fork: between fork and exec only async-signal-safe calls are allowed.
  std::vector<std::string> words = {"rivulet"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int pipes[2][2];
  if (pipe2(pipes[0], O_CLOEXEC) != 0) return Internal("no pipe for a child process: {}", std::strerror(errno));
  if (pipe2(pipes[1], O_CLOEXEC) != 0) {
    close(pipes[0][0]);
    close(pipes[0][1]);
    return Internal("no pipe for a child process: {}", std::strerror(errno));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // A separate group, so that the terminal's Ctrl-C reaches only the parent, which ends its children in order. If the
    // parent dies, the system signals the child.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // the parent died before the line above
    std::signal(SIGPIPE, SIG_DFL);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
    // The running binary itself, even if its file was replaced meanwhile.
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  const int error = errno;
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  for (int i = 0; i < 2; ++i) {
    close(pipes[i][1]);
    child->streams_[i].fd = pipes[i][0];
    fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
  }
  if (pid < 0) return Internal("a child process could not be started: {}", std::strerror(error));
  child->pid_ = pid;
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !exit_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (Stream& stream : streams_) {
    if (stream.fd >= 0) close(stream.fd);
  }
}

std::vector<std::string> ChildProcess::Lines(Stream& stream) {
  std::vector<std::string> lines;
  char buffer[4096];
  while (stream.fd >= 0) {
    const ssize_t got = read(stream.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      close(stream.fd);
      stream.fd = -1;
      if (!stream.partial.empty()) lines.push_back(std::exchange(stream.partial, ""));
      break;
    }
    stream.partial.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = stream.partial.find('\n')) != std::string::npos;) {
      lines.push_back(stream.partial.substr(0, end));
      stream.partial.erase(0, end + 1);
    }
  }
  return lines;
}

void ChildProcess::Signal(int signal) {
  if (pid_ > 0 && !exit_) kill(pid_, signal);
}

std::optional<int> ChildProcess::Exited() {
  if (!exit_ && pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
  }
  return exit_;
}

}  // namespace rivulet
