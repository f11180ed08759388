// A course of execution with a stack of its own, which gives way where it says so: what the threads of an emulated
// block are, once they wait for each other.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace rivulet::gpu::emulated {

// Belongs to the thread of the host that made it. `body` runs at the first Resume and never returns: it gives way. A
// fiber may go while it has given way; nothing on its stack is destroyed then.
class Fiber {
 public:
  Fiber(void (*body)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  void Resume();   // by who is outside: until the fiber gives way
  void GiveWay();  // by the fiber itself: until it is resumed

 private:
  struct Context;
  static void Enter();

  void (*const body_)(void*);
  void* const argument_;
  std::byte* stack_ = nullptr;
  std::unique_ptr<Context> context_;
};

}  // namespace rivulet::gpu::emulated
