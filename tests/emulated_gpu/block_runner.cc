#include "tests/emulated_gpu/block_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/base/check.h"
#include "tests/emulated_gpu/cuda_language.h"
#include "tests/emulated_gpu/fiber.h"

constinit thread_local uint3 threadIdx;
constinit thread_local uint3 blockIdx;
constinit thread_local dim3 blockDim;
constinit thread_local dim3 gridDim;

namespace rivulet::gpu::emulated {
namespace {

// The threads of one block, and the fibers that they run on. A fiber runs threads that have not begun, one after the
// other; one that comes to a barrier keeps its fiber, and the next thread begins on another. So a kernel without
// barriers takes one fiber and a plain loop.
class BlockRunner {
 public:
  std::string Run(const std::function<void()>& body, uint32_t threads, bool downwards) {
    body_ = &body;
    threads_ = threads;
    begun_ = 0;
    downwards_ = downwards;
    failure_.clear();
    waiting_.clear();
    while (begun_ < threads_ && failure_.empty()) {
      if (idle_.empty()) AddFiber();
      Resume(idle_.back());
    }
    while (!waiting_.empty() && failure_.empty()) NextPhase();
    if (!failure_.empty()) Discard();
    return failure_;
  }

  void Synchronize(int line) {
    const uint3 thread = threadIdx;
    Runner* runner = running_;
    runner->line = line;
    waiting_.push_back(runner);
    runner->at_barrier = true;
    runner->fiber->GiveWay();
    threadIdx = thread;
  }

  // Never comes back, so nothing that its callers hold is destroyed.
  void Fail(const char* failure) {
    failure_ = failure;
    for (;;) running_->fiber->GiveWay();
  }

 private:
  struct Runner {
    BlockRunner* block;
    std::unique_ptr<Fiber> fiber;
    bool at_barrier = false;
    int line = 0;
  };

  void AddFiber() {
    runners_.push_back(std::make_unique<Runner>());
    Runner* runner = runners_.back().get();
    runner->block = this;
    runner->fiber = std::make_unique<Fiber>(&BlockRunner::RunThreads, runner);
    idle_.push_back(runner);
  }

  static void RunThreads(void* argument) {
    Runner* runner = static_cast<Runner*>(argument);
    BlockRunner* block = runner->block;
    for (;;) {
      while (block->begun_ < block->threads_) {
        const uint32_t turn = block->begun_++;
        threadIdx.x = block->downwards_ ? block->threads_ - 1 - turn : turn;
        (*block->body_)();
      }
      runner->fiber->GiveWay();
    }
  }

  void Resume(Runner* runner) {
    runner->at_barrier = false;
    std::erase(idle_, runner);
    running_ = runner;
    runner->fiber->Resume();
    if (!runner->at_barrier) idle_.push_back(runner);
  }

  void NextPhase() {
    if (waiting_.size() != threads_) {
      failure_ = fmt::format("__syncthreads() in line {} was reached by {} of the {} threads of a block",
                             waiting_[0]->line, waiting_.size(), threads_);
      return;
    }
    std::vector<Runner*> phase;
    phase.swap(waiting_);
    std::reverse(phase.begin(), phase.end());
    for (const Runner* runner : phase) {
      if (runner->line == phase[0]->line) continue;
      failure_ = fmt::format("the threads of a block are at two barriers, the __syncthreads() in lines {} and {}",
                             phase[0]->line, runner->line);
      return;
    }
    for (Runner* runner : phase) {
      if (failure_.empty()) Resume(runner);
    }
  }

  // Threads in the midst of a kernel that failed are never resumed.
  void Discard() {
    idle_.clear();
    waiting_.clear();
    runners_.clear();
  }

  const std::function<void()>* body_ = nullptr;
  uint32_t threads_ = 0, begun_ = 0;
  bool downwards_ = false;
  std::string failure_;
  Runner* running_ = nullptr;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> idle_;     // have no thread in their midst
  std::vector<Runner*> waiting_;  // at a barrier, in order of their coming
};

BlockRunner& OfThisThread() {
  thread_local BlockRunner runner;
  return runner;
}

}  // namespace

std::string WrongShape(const LaunchShape& shape) {
  if (shape.threads == 0 || shape.threads > 1024) {
    return fmt::format("a block of {} threads: 1 to 1024 are possible", shape.threads);
  }
  if (shape.blocks_x > 0x7fffffff || shape.blocks_y > 65535 || shape.blocks_z > 65535) {
    return fmt::format("a grid of {} x {} x {} blocks: at most 2147483647 x 65535 x 65535 are possible", shape.blocks_x,
                       shape.blocks_y, shape.blocks_z);
  }
  return "";
}

std::string RunBlocks(const LaunchShape& shape, const std::function<void()>& body) {
  BlockRunner& runner = OfThisThread();
  blockDim = {shape.threads, 1, 1};
  gridDim = {shape.blocks_x, shape.blocks_y, shape.blocks_z};
  for (uint32_t z = 0; z < shape.blocks_z; ++z) {
    for (uint32_t y = 0; y < shape.blocks_y; ++y) {
      for (uint32_t x = 0; x < shape.blocks_x; ++x) {
        blockIdx = {x, y, z};
        std::string failure = runner.Run(body, shape.threads, (x + y + z) % 2 == 1);
        if (!failure.empty()) return failure;
      }
    }
  }
  return "";
}

void Synchronize(int line) { OfThisThread().Synchronize(line); }
void Trap() {
  OfThisThread().Fail("a thread came to __trap()");
  RIVULET_CHECK(false, "a failed block went on");
}

}  // namespace rivulet::gpu::emulated
