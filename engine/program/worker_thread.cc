#include <cfenv>

#include "engine/program/program.h"
#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

// Declared as in <omp.h>. Clang has that header only for its own OpenMP library, which oneDNN does not use.
extern "C" void omp_set_num_threads(int threads) noexcept;

namespace rivulet {

void EnterWorkerThread() {
  omp_set_num_threads(1);  // per thread: otherwise oneDNN would start a team of threads in each worker
  std::fesetround(FE_TONEAREST);
#if defined(__SSE2__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  control |= uint64_t{1} << 24;  // FZ
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

}  // namespace rivulet
