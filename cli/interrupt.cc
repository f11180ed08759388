#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "engine/base/check.h"

namespace rivulet {
namespace {

constexpr int kLookMs = 100;  // without a pipe

std::atomic<int> signals = 0;
std::atomic<int> first_signal = 0;
std::atomic<bool> forgotten = false;
bool constructed = false;
int signal_pipe[2] = {-1, -1};  // read end, write end
int forget_pipe[2] = {-1, -1};
struct sigaction previous_int, previous_term, previous_hangup;

extern "C" void OnSignal(int signal) {
  // A closing terminal signals twice, by the shell and by the kernel: the second is no further request.
  if (signal == SIGHUP && signals > 0) return;
  // Async-signal-safe: lock-free atomics, write and _exit.
  if (signals.fetch_add(1) > 0) _exit(1);
  first_signal = signal;
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], "!", 1);
}
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

Interrupt::Interrupt() {
  RIVULET_CHECK(!constructed, "two Interrupts at a time");
  // Without free descriptors there is no pipe: the flag is then polled.
  for (int* ends : {signal_pipe, forget_pipe})
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) ends[0] = ends[1] = -1;
  constructed = true;
  forgotten = false;
  signals = first_signal = 0;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
  // A terminal that is closed; if nohup(1) has ignored the signal, it stays ignored.
  sigaction(SIGHUP, nullptr, &previous_hangup);
  if (previous_hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

Interrupt::~Interrupt() {
  Forget();
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
  sigaction(SIGHUP, &previous_hangup, nullptr);
  for (int* end : {&signal_pipe[0], &signal_pipe[1], &forget_pipe[0], &forget_pipe[1]}) {
    if (*end >= 0) close(*end);
    *end = -1;
  }
  constructed = false;
}

bool Interrupt::happened() const { return signals > 0; }
bool Interrupt::asked() const { return first_signal == SIGTERM; }
int Interrupt::fd() const { return signal_pipe[0]; }

void Interrupt::Call(std::function<void()> function) {
  thread_ = std::thread([function = std::move(function)] {
    pollfd ends[2] = {{signal_pipe[0], POLLIN, 0}, {forget_pipe[0], POLLIN, 0}};
    const bool pipes = ends[0].fd >= 0 && ends[1].fd >= 0;
    while (poll(ends, 2, pipes ? -1 : kLookMs) < 0 || (!pipes && signals == 0 && !forgotten)) {
    }
    if (signals > 0 && !forgotten) function();
  });
}

void Interrupt::Forget() {
  if (!thread_.joinable()) return;
  forgotten = true;
  [[maybe_unused]] const ssize_t written = write(forget_pipe[1], "!", 1);
  thread_.join();
}

}  // namespace rivulet
