// Digest of a model that is still being computed, on a separate thread that follows the writer. Hashing takes as long
// as the rest of a version, and the definition of the digest (model.h) does not allow parallel hashing.
#pragma once

#include <cstddef>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "federated/weights/model.h"

namespace rivulet {

class FollowingDigest {
 public:
  // Starts the thread; no byte of `model` is final yet. `model` must outlive this.
  explicit FollowingDigest(const Model& model);
  ~FollowingDigest();  // stops an unfinished digest
  FollowingDigest(const FollowingDigest&) = delete;
  FollowingDigest& operator=(const FollowingDigest&) = delete;

  // Reports that the arena's first `end` bytes are final. `end` must not decrease. Call from one thread.
  void Made(size_t end);
  // Call once, after all bytes are final. Returns the same as ComputeDigest.
  Digest Finish();

 private:
  // Waits until the first `end` bytes are final; returns false if the digest was stopped.
  bool Await(size_t end);

  const Model& model_;
  Mutex mutex_;
  CondVar changed_;
  size_t made_ GUARDED_BY(mutex_) = 0;
  bool given_up_ GUARDED_BY(mutex_) = false;
  Digest digest_;  // owned by the thread until it ends
  std::thread thread_;
};

}  // namespace rivulet
