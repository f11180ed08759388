// Checkpoint of a long training, written to disk periodically. A client that dies during a training resumes there while
// its task is alive, with the same bits.
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

// A position between two steps of a task. Epochs and steps count over all of its passes.
struct TrainingPosition {
  uint64_t pass = 0;                       // index of the current pass
  uint64_t pass_step = 0, pass_epoch = 0;  // at which that pass began
  uint64_t step = 0, epoch = 0;            // finished steps and epochs
  uint64_t batches = 0;                    // of this epoch so far
  int64_t seen = 0;                        // examples of this epoch so far
  std::vector<double> sums = {};           // of the pass's scalars over this epoch
  Scalars declared = {};                   // by the earlier passes
};

class TrainingCheckpoint {
 public:
  struct Options {
    std::chrono::milliseconds every = std::chrono::minutes(1);
    std::string program;  // the program's identity; another one's checkpoint is not resumed
    // Receives messages for people: a training resumes, no checkpoint can be written, or one was dropped and why.
    std::function<void(const std::string& sentence)> on_note;
  };
  // `fs` must outlive this.
  TrainingCheckpoint(FileSystem& fs, const std::string& folder, std::string_view client_id, Options options);

  // Starts the work (client/training/task_work.h), on so many examples.
  void Begin(const Digest& work, int64_t examples);
  // The position at which an earlier process was with the same work, with its buffers filled; nullopt, with none
  // filled: there is none, or it is damaged.
  std::optional<TrainingPosition> GoOn(std::span<const std::span<std::byte>> buffers);
  // Called after a step: whether it is time for Keep.
  bool Due() const { return Clock::now() >= due_; }
  // A failed write is no error; it is reported once until a write succeeds.
  void Keep(const TrainingPosition& position, std::span<const std::span<std::byte>> buffers);
  // The task is over: removes its checkpoint.
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
