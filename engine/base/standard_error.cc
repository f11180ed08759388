#include "engine/base/standard_error.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

namespace rivulet {
namespace {

constexpr int kPatienceMs = 250;

// Once a write was dropped for want of a reader, the next ones do not wait for him.
std::atomic<bool> given_up = false;

ssize_t WriteOrDrop(void*, const char* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    pollfd end = {STDERR_FILENO, POLLOUT, 0};
    const int ready = poll(&end, 1, given_up ? 0 : kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      given_up = true;
      break;
    }
    given_up = false;
    // A pipe that is ready takes this many bytes without a wait (POSIX).
    const ssize_t written = write(STDERR_FILENO, bytes + done, std::min<size_t>(size - done, PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  return static_cast<ssize_t>(size);
}

}  // namespace

void MakeStandardErrorForgiving() {
  // The lowest free number is taken: in this order each gets its own. Nothing can be written to the first two.
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) < 0 && errno == EBADF) [[maybe_unused]]
      const int opened = open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  cookie_io_functions_t functions = {};
  functions.write = WriteOrDrop;
  FILE* const forgiving = fopencookie(nullptr, "w", functions);
  if (forgiving == nullptr) return;
  std::setvbuf(forgiving, nullptr, _IONBF, 0);
  std::fflush(stderr);
  stderr = forgiving;
}

}  // namespace rivulet
