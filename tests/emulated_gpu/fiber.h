// A fiber: a function with its own stack that yields explicitly. The threads of an emulated block become fibers when
// they wait for each other.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace rivulet::gpu::emulated {

// Belongs to the host thread that created it. `body` starts at the first Resume and never returns: it yields. A fiber
// may be destroyed after it has yielded; objects on its stack are then not destroyed.
class Fiber {
 public:
  Fiber(void (*body)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  void Resume();   // called from outside: runs until the fiber yields
  void GiveWay();  // called by the fiber: waits until it is resumed

 private:
  struct Context;
  static void Enter();

  void (*const body_)(void*);
  void* const argument_;
  std::byte* stack_ = nullptr;
  std::unique_ptr<Context> context_;
};

}  // namespace rivulet::gpu::emulated
