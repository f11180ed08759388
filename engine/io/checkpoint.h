// Checkpoints: a folder of safetensors files, one per saved step, each written atomically. A file holds the tensors as
// they are in memory, concatenated, with a checksum for each. There is no enclosing message and no 2 GB limit; any
// safetensors reader opens the file.
//
//   CheckpointFolder folder(FileSystem::Default(), "checkpoints", /*keep=*/3);
//   RIVULET_RETURN_IF_ERROR(folder.Save(step, tensors));
//   RIVULET_ASSIGN_OR_RETURN(const Checkpoint newest, folder.Latest());
//
// A crash at any point keeps every checkpoint for which Save returned OK, and leaves none incomplete. Latest returns
// the newest one whose checksums match.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

using NamedTensorView = std::pair<std::string, TensorView>;

struct Checkpoint {
  int64_t step = 0;
  std::vector<std::pair<std::string, Tensor>> tensors;  // in the order in which they were saved
  std::map<std::string, std::string> metadata;          // set by the caller
  std::vector<std::string> damaged;                     // newer files that were skipped, each with the reason
};

// Not thread-safe. Only one process may write to a folder.
class CheckpointFolder {
 public:
  // Keeps the newest `keep` checkpoints, at least 1. `fs` must outlive this object.
  CheckpointFolder(FileSystem& fs, std::string folder, int keep = 5);

  // Writes "checkpoint-000000000100.safetensors" for step 100. Then removes the oldest beyond `keep` and leftovers of
  // crashes. Saving a step again replaces it. INVALID_ARGUMENT: a negative step, names that are not distinct UTF-8, a
  // dtype unknown to safetensors. Others are the file system's errors; earlier checkpoints are then intact.
  Status Save(int64_t step, std::span<const NamedTensorView> tensors,
              const std::map<std::string, std::string>& metadata = {});

  // Returns the steps of existing files in ascending order. NOT_FOUND: no folder.
  StatusOr<std::vector<int64_t>> Steps() const;
  // NOT_FOUND: no such step. DATA_LOSS: its file is damaged, with the reason.
  StatusOr<Checkpoint> Load(int64_t step) const;
  // NOT_FOUND: there is no undamaged checkpoint (the message lists the damaged ones).
  StatusOr<Checkpoint> Latest() const;

  std::string PathOf(int64_t step) const;

 private:
  FileSystem& fs_;
  const std::string folder_;
  const int keep_;
};

}  // namespace rivulet
