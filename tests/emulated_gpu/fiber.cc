#include "tests/emulated_gpu/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <csetjmp>

#include "engine/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define RIVULET_ADDRESS_SANITIZER 1
#include <sanitizer/common_interface_defs.h>
#endif
// -fsanitize=thread: its own macro is undefined in our build (CMakeLists.txt), so the build says it by this one.
#if defined(RIVULET_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(RIVULET_ADDRESS_SANITIZER) || defined(RIVULET_THREAD_SANITIZER)
#define RIVULET_SANITIZED 1
#endif

namespace rivulet::gpu::emulated {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // of which only the pages that are touched take memory
constexpr size_t kGuardBytes = 4096;

thread_local Fiber* entering = nullptr;

}  // namespace

// Switching by swapcontext costs two system calls each, since it keeps the signals' mask. So it is used to enter only,
// and _setjmp and _longjmp between; the sanitizers know swapcontext and not this.
struct Fiber::Context {
  ucontext_t inside{}, outside{};
  bool entered = false;
#ifdef RIVULET_SANITIZED
  void* outside_fake_stack = nullptr;
  void* inside_fake_stack = nullptr;
  const void* outside_stack = nullptr;
  size_t outside_bytes = 0;
  void* thread_inside = nullptr;
  void* thread_outside = nullptr;
#else
  jmp_buf jump_inside, jump_outside;
#endif
};

Fiber::Fiber(void (*body)(void*), void* argument)
    : body_(body), argument_(argument), context_(std::make_unique<Context>()) {
  void* stack =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RIVULET_CHECK(stack != MAP_FAILED, "no memory for the stack of an emulated thread");
  stack_ = static_cast<std::byte*>(stack);
  ::mprotect(stack_, kGuardBytes, PROT_NONE);  // stacks grow down into it
  ::getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = stack_ + kGuardBytes;
  context_->inside.uc_stack.ss_size = kStackBytes - kGuardBytes;
  context_->inside.uc_link = nullptr;
  ::makecontext(&context_->inside, &Fiber::Enter, 0);
#ifdef RIVULET_THREAD_SANITIZER
  context_->thread_inside = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef RIVULET_THREAD_SANITIZER
  __tsan_destroy_fiber(context_->thread_inside);
#endif
  ::munmap(stack_, kStackBytes);
}

void Fiber::Enter() {
  Fiber* fiber = entering;
#ifdef RIVULET_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &fiber->context_->outside_stack, &fiber->context_->outside_bytes);
#endif
  fiber->body_(fiber->argument_);
  RIVULET_CHECK(false, "the body of a fiber returned");
}

#ifdef RIVULET_SANITIZED

void Fiber::Resume() {
  Context& context = *context_;
  entering = this;
#ifdef RIVULET_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&context.outside_fake_stack, stack_ + kGuardBytes, kStackBytes - kGuardBytes);
#endif
#ifdef RIVULET_THREAD_SANITIZER
  context.thread_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(context.thread_inside, 0);
#endif
  ::swapcontext(&context.outside, &context.inside);
#ifdef RIVULET_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(context.outside_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::GiveWay() {
  Context& context = *context_;
#ifdef RIVULET_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&context.inside_fake_stack, context.outside_stack, context.outside_bytes);
#endif
#ifdef RIVULET_THREAD_SANITIZER
  __tsan_switch_to_fiber(context.thread_outside, 0);
#endif
  ::swapcontext(&context.inside, &context.outside);
#ifdef RIVULET_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(context.inside_fake_stack, &context.outside_stack, &context.outside_bytes);
#endif
}

#else

void Fiber::Resume() {
  if (_setjmp(context_->jump_outside) != 0) return;
  if (context_->entered) _longjmp(context_->jump_inside, 1);
  context_->entered = true;
  entering = this;
  ::setcontext(&context_->inside);
}

void Fiber::GiveWay() {
  if (_setjmp(context_->jump_inside) == 0) _longjmp(context_->jump_outside, 1);
}

#endif

}  // namespace rivulet::gpu::emulated
