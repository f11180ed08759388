// Assignment of tasks to lanes of a device, and the order of each lane's examples. Both are known before any task is
// trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/training/trainer.h"
#include "federated/plan/pass.h"

namespace rivulet {

// A task that is being trained, or will be if its data can be read.
struct GpuLane {
  size_t request = 0;  // index among the requested tasks
  const LaneTask* asked = nullptr;
  int64_t size = 0;
  std::vector<uint32_t> order;  // of the examples that its steps take, over all passes
  std::vector<int64_t> seen;    // examples of the last epoch, by pass
  std::vector<int64_t> steps;   // by pass: a task may do a part of its epochs (LocalPass::partial_work)
  uint64_t all_steps() const;
};

// The most examples that the steps of all passes take for a client of `size` examples.
int64_t ExamplesTaken(std::span<const LocalPass> passes, int64_t size);

// The tasks of `asked` that can be trained; `results` has the others' errors. Largest first, so lanes that step
// together are the first ones, as far as whole batches go.
std::vector<GpuLane> GpuLanesOf(std::span<const LocalPass> passes, std::span<const LaneTask> asked,
                                std::span<LocalResult> results);

}  // namespace rivulet
