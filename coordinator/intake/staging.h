// Staging area of incomplete uploads: in memory up to a budget, beyond it in unlinked files beside the run's models,
// which the system removes with this process. So the coordinator's memory does not grow with the cohort.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// The bytes of one upload as they arrive. Not thread-safe. Frees its memory or disk space when destroyed.
class StagedBytes {
 public:
  virtual ~StagedBytes() = default;
  // Appends these in order. RESOURCE_EXHAUSTED: the disk is full, or the file would be too long; bytes that were
  // appended before the failure stay.
  virtual Status AppendPieces(std::span<const std::span<const std::byte>> pieces) = 0;
  Status Append(std::span<const std::byte> bytes) { return AppendPieces({&bytes, 1}); }
  // Drops all bytes after the first `size`, which is at most the current size.
  virtual void Truncate(int64_t size) = 0;
  virtual int64_t size() const = 0;
  virtual bool on_disk() const = 0;  // its destruction frees a file, not memory
  // All bytes appended so far, valid until the next Append or Truncate, or the end of this object.
  virtual StatusOr<std::span<const std::byte>> View() = 0;
};

// The descriptor of a new file without a name in `folder`; closing it removes the file. RESOURCE_EXHAUSTED: the disk is
// full, or no descriptors are left.
StatusOr<int> OpenUnlinked(const std::string& folder);

// Memory budget and spill files for uploads. Thread-safe; must outlive the objects that it gives.
class Staging {
 public:
  // `open` makes the files; tests replace it.
  Staging(std::string folder, int64_t memory_bytes,
          std::function<StatusOr<int>(const std::string& folder)> open = OpenUnlinked);
  ~Staging();

  // Reserves an upload of `bytes` bytes (at least 1). May open a file, so the caller must hold no lock.
  StatusOr<std::unique_ptr<StagedBytes>> Reserve(int64_t bytes);
  int64_t memory_in_use() const;  // of uploads, without buffers that are kept for later ones
  int64_t spilled() const;        // uploads that went to disk so far

 private:
  friend class MemoryBytes;
  struct Buffer {
    std::byte* data = nullptr;
    size_t capacity = 0;
  };
  // A buffer within the budget, or an empty one.
  Buffer Take(size_t bytes);
  void GiveBack(Buffer buffer);

  const std::string folder_;
  const size_t budget_;
  const std::function<StatusOr<int>(const std::string& folder)> open_;
  mutable Mutex mutex_;
  size_t in_use_ GUARDED_BY(mutex_) = 0;
  size_t kept_ GUARDED_BY(mutex_) = 0;           // in free_
  std::vector<Buffer> free_ GUARDED_BY(mutex_);  // touched memory, ready for the next upload of the same size
  int64_t spilled_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
