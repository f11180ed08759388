// Checkpoints: a folder of safetensors files, one per saved step, each written atomically. A file holds the tensors as
// they are in memory, one after the other, with a checksum of each. No message wraps them and no 2 GB limit applies;
// any safetensors reader opens the file.
//
//   CheckpointFolder folder(FileSystem::Default(), "checkpoints", /*keep=*/3);
//   RIVULET_RETURN_IF_ERROR(folder.Save(step, tensors));
//   RIVULET_ASSIGN_OR_RETURN(const Checkpoint newest, folder.Latest());
//
// A crash at any point keeps every checkpoint that Save confirmed with OK, and leaves none half written. Latest returns
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
  std::map<std::string, std::string> metadata;          // the caller's
  std::vector<std::string> damaged;                     // newer files that were passed over, each with the reason
};

// Not thread-safe; one process writes a folder.
class CheckpointFolder {
 public:
  // `fs` must outlive it. The newest `keep` checkpoints stay, at least 1.
  CheckpointFolder(FileSystem& fs, std::string folder, int keep = 5);

  // Writes "checkpoint-000000000100.safetensors" for step 100, then removes the oldest beyond `keep` and what crashes
  // have left. Saving a step again replaces it. INVALID_ARGUMENT: a negative step, names that are not different UTF-8
  // texts, a dtype that safetensors has not. Else the file system's errors; the checkpoints before are then all there.
  Status Save(int64_t step, std::span<const NamedTensorView> tensors,
              const std::map<std::string, std::string>& metadata = {});

  // Of the files that are there, ascending. NOT_FOUND: no folder.
  StatusOr<std::vector<int64_t>> Steps() const;
  // NOT_FOUND: no such step. DATA_LOSS: its file is damaged, with the reason.
  StatusOr<Checkpoint> Load(int64_t step) const;
  // NOT_FOUND: none is there that is whole (the message lists the damaged ones).
  StatusOr<Checkpoint> Latest() const;

  std::string PathOf(int64_t step) const;

 private:
  FileSystem& fs_;
  const std::string folder_;
  const int keep_;
};

}  // namespace rivulet
