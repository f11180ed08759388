// Replaces pthread_mutex_lock, which std::mutex calls, and forwards to the C library's.
#include "tests/engine/program/locks.h"

#include <dlfcn.h>
#include <pthread.h>

#ifdef RIVULET_SANITIZED  // which replaces it itself

namespace rivulet::testing {
int CountLocks(const std::function<void()>& body) {
  body();
  return -1;
}
}  // namespace rivulet::testing

#else

namespace {
thread_local bool counting = false;
thread_local int locks = 0;

// Whether the caller is this program and no library.
bool IsOurs(void* caller) {
  Dl_info program{}, of_caller{};
  dladdr(reinterpret_cast<void*>(&IsOurs), &program);
  return dladdr(caller, &of_caller) != 0 && of_caller.dli_fbase == program.dli_fbase;
}
}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Function = int (*)(pthread_mutex_t*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting) {
    counting = false;
    locks += IsOurs(__builtin_return_address(0)) ? 1 : 0;
    counting = true;
  }
  return real(mutex);
}

namespace rivulet::testing {

int CountLocks(const std::function<void()>& body) {
  locks = 0;
  counting = true;
  body();
  counting = false;
  return locks;
}

}  // namespace rivulet::testing

#endif
