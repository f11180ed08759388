// Training of several clients on the host at once: one step each, from one base model (client/training/lane_step.h).
// The bits are those of each client trained alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "client/training/bound_passes.h"
#include "client/training/lane_step.h"
#include "client/training/pass_programs.h"
#include "client/training/task_inputs.h"
#include "client/training/trainer.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Lanes of one trainer. Not thread-safe.
class HostLanes {
 public:
  // `programs` must outlive this.
  explicit HostLanes(PassPrograms& programs);

  // The lanes' step for tasks of `size` examples that take one step of `pass`; null: they are trained alone.
  LaneStep* For(const BoundPass& pass, int64_t size);

  // Trains tasks that take one step of `pass`; null: there are none. `buffers`: the trainer's, by the table's index.
  // Results are as Trainer::Train's; their parts are valid until the next call. INVALID_ARGUMENT: more lanes than For's
  // step has, or tasks that differ.
  StatusOr<std::vector<LocalResult>> Train(const BoundPass* pass, std::span<const LaneTask> lanes,
                                           std::span<Buffer> buffers, KnownLayout& layout,
                                           const CancellationToken& cancel);

 private:
  PassPrograms& programs_;
  const Plan& plan_;
  const BufferTable& table_;
  std::map<int64_t, std::unique_ptr<LaneStep>> steps_;  // by batch size; null: none
  std::vector<uint32_t> order_;                         // of a lane's only epoch
  AlignedBuffer memory_;                                // of the largest step
};

}  // namespace rivulet
