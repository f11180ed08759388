#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "engine/base/check.h"

namespace rivulet {
namespace {

std::atomic<int> signals = 0;
int signal_pipe[2] = {-1, -1};  // read end, write end
int forget_pipe[2] = {-1, -1};
struct sigaction previous_int, previous_term;

extern "C" void OnSignal(int) {
  // Async-signal-safe: lock-free atomics, write and _exit.
  if (signals.fetch_add(1) > 0) _exit(1);
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], "!", 1);
}
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

Interrupt::Interrupt() {
  RIVULET_CHECK(signal_pipe[0] < 0, "two Interrupts at a time");
  RIVULET_CHECK(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(forget_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  signals = 0;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

Interrupt::~Interrupt() {
  Forget();
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
  for (int* end : {&signal_pipe[0], &signal_pipe[1], &forget_pipe[0], &forget_pipe[1]}) {
    close(*end);
    *end = -1;
  }
}

bool Interrupt::happened() const { return signals > 0; }
int Interrupt::fd() const { return signal_pipe[0]; }

void Interrupt::Call(std::function<void()> function) {
  thread_ = std::thread([function = std::move(function)] {
    pollfd ends[2] = {{signal_pipe[0], POLLIN, 0}, {forget_pipe[0], POLLIN, 0}};
    while (poll(ends, 2, -1) < 0) {
    }
    if (ends[0].revents != 0 && ends[1].revents == 0) function();
  });
}

void Interrupt::Forget() {
  if (!thread_.joinable()) return;
  [[maybe_unused]] const ssize_t written = write(forget_pipe[1], "!", 1);
  thread_.join();
}

}  // namespace rivulet
