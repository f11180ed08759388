// Checkpoint of a long training, written to disk every so often. A client that dies during a training resumes there
// while its task is alive, with the same bits.
//
//   Begin(task) ──→ GoOn ──→ step, Due? Keep, step, Due? … ──→ Remove, when the task is over
//
// One file a client, <folder>/<24 digits of its name's SHA-256>, mode 0600. It holds the training's state (parameters,
// gradients, an optimiser's slots, the client's state) and the position. The next task's checkpoint replaces it. Not
// thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/sha256.h"
#include "federated/tasks/task.h"

namespace rivulet {

// Between two steps of a task. Epochs and steps count over all of its passes.
struct TrainingPosition {
  uint64_t pass = 0;                       // that it is in
  uint64_t pass_step = 0, pass_epoch = 0;  // at which that began
  uint64_t step = 0, epoch = 0;            // steps that are done, epochs that are over
  uint64_t batches = 0;                    // of this epoch so far
  int64_t seen = 0;                        // examples of this epoch so far
  std::vector<double> sums = {};           // of the pass's scalars over this epoch
  Scalars declared = {};                   // by the passes before
};

class TrainingCheckpoint {
 public:
  struct Options {
    std::chrono::milliseconds every = std::chrono::minutes(1);
    std::string program;  // what computes; another one's checkpoint is not gone on with
    // A sentence for whoever watches: that a training goes on, that nothing can be kept, or why something was dropped.
    std::function<void(const std::string& sentence)> on_note;
  };
  // `fs` must outlive this.
  TrainingCheckpoint(FileSystem& fs, const std::string& folder, std::string_view client_id, Options options);

  // What follows is about this work (client/training/task_work.h), on so many examples.
  void Begin(const Digest& work, int64_t examples);
  // Where an earlier process was with the same work, its buffers filled; nullopt, and nothing filled: nowhere, or what
  // it left is damaged.
  std::optional<TrainingPosition> GoOn(std::span<const std::span<std::byte>> buffers);
  // After a step: whether it is time for Keep.
  bool Due() const { return Clock::now() >= due_; }
  // What cannot be kept is said, once until something can, and is no error.
  void Keep(const TrainingPosition& position, std::span<const std::span<std::byte>> buffers);
  // The task is over.
  void Remove();

 private:
  using Clock = std::chrono::steady_clock;
  void Say(const std::string& sentence) const;

  FileSystem& fs_;
  const std::string path_;
  const Options options_;
  Digest work_;
  Clock::time_point due_;
  bool said_lost_ = false;
};

}  // namespace rivulet
