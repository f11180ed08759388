// Tasks of a cluster as separate processes: this test program, started as a server.
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataflow/session/session.h"
#include "engine/base/join.h"
#include "engine/base/status.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// Local ports reserved for the tests: sockets stay bound to them, and do not listen. Servers that reuse addresses, like
// gRPC's, can listen on them, also after a restart.
class ReservedPorts {
 public:
  explicit ReservedPorts(int count) {
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockets_.push_back(fd);
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof address;
      EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
      EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
      ports_.push_back(ntohs(address.sin_port));
    }
  }
  ~ReservedPorts() {
    for (const int fd : sockets_) close(fd);
  }
  ReservedPorts(const ReservedPorts&) = delete;
  ReservedPorts& operator=(const ReservedPorts&) = delete;
  const std::vector<int>& ports() const { return ports_; }

 private:
  std::vector<int> sockets_, ports_;
};

class TaskProcess {
 public:
  static constexpr char kServe[] = "TaskProcess.DISABLED_Serve";  // the test that serves until it is killed

  // `die_at`: as Start.
  TaskProcess(std::string cluster, int task, int heartbeat_ms, const std::string& die_at = "")
      : cluster_(std::move(cluster)), task_(task), heartbeat_ms_(heartbeat_ms) {
    Start(die_at);
  }
  ~TaskProcess() { Kill(SIGKILL); }
  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;

  // `die_at` names a call from another process; the process then ends as if by SIGKILL: "RunGraph:2" when the second
  // call arrives, "RunGraph:2:answer" before its answer.
  void Start(const std::string& die_at = "") {
    const std::string filter = std::string("--gtest_filter=") + kServe;
    std::vector<std::string> arguments = {"/proc/self/exe", filter, "--gtest_also_run_disabled_tests",
                                          "--gtest_brief=1"};
    std::vector<std::string> environment = {
        "RIVULET_TEST_CLUSTER=" + cluster_, "RIVULET_TEST_TASK=" + std::to_string(task_),
        "RIVULET_TEST_HEARTBEAT_MS=" + std::to_string(heartbeat_ms_), "RIVULET_TEST_DIE_AT=" + die_at};
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!std::string_view(*entry).starts_with("GTEST_")) environment.emplace_back(*entry);
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    for (std::string& entry : environment) envp.push_back(entry.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    ASSERT_GT(length, 0);
    self[length] = 0;
    ASSERT_EQ(posix_spawn(&pid_, self, nullptr, nullptr, argv.data(), envp.data()), 0);
  }
  void Kill(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal)
        << "task " << task_ << " had ended by itself, with wait status " << status;
    pid_ = 0;
  }
  // Returns true if it ends by SIGKILL within `timeout`; then it may be started again.
  bool DiesWithin(std::chrono::milliseconds timeout) {
    if (pid_ == 0) return true;
    const auto until = std::chrono::steady_clock::now() + timeout;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "task " << task_ << ": wait status " << status;
    pid_ = 0;
    return true;
  }
  // Simulates a machine that hangs: connections stay open without answers.
  void Freeze() {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);  // until all of its threads have stopped
  }
  void Thaw() { kill(pid_, SIGCONT); }

 private:
  const std::string cluster_;
  const int task_, heartbeat_ms_;
  pid_t pid_ = 0;
};

// `count` processes of the job "worker".
class Processes {
 public:
  explicit Processes(int count, int heartbeat_ms = 60'000) : reserved_(count) {
    std::vector<std::string> addresses;
    for (const int port : reserved_.ports()) addresses.push_back(fmt::format("127.0.0.1:{}", port));
    for (int i = 0; i < count; ++i)
      tasks_.push_back(std::make_unique<TaskProcess>("worker=" + Join(addresses, ","), i, heartbeat_ms));
    target_ = "grpc://" + addresses[0];
  }
  TaskProcess& operator[](int i) { return *tasks_[static_cast<size_t>(i)]; }
  StatusOr<std::unique_ptr<Session>> Open(Graph graph, SessionConfig config = {}) const {
    config.target = target_;
    return Session::Create(std::move(graph), config);
  }

 private:
  const ReservedPorts reserved_;
  std::vector<std::unique_ptr<TaskProcess>> tasks_;
  std::string target_;
};

}  // namespace rivulet::testing
