// Digest of a model that is still being computed, on a separate thread that follows the writer. Hashing takes as long
// as the rest of a version, and the definition of the digest (model.h) allows no division.
#pragma once

#include <cstddef>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "federated/weights/model.h"

namespace rivulet {

class FollowingDigest {
 public:
  // Nothing of `model` is made yet. It must outlive this.
  explicit FollowingDigest(const Model& model);
  ~FollowingDigest();  // gives up what is not finished
  FollowingDigest(const FollowingDigest&) = delete;
  FollowingDigest& operator=(const FollowingDigest&) = delete;

  // The arena's first `end` bytes are what they will be. It never falls; from one thread.
  void Made(size_t end);
  // When all is made: what ComputeDigest gives. Once.
  Digest Finish();

 private:
  // Waits until that much is made; false: given up.
  bool Await(size_t end);

  const Model& model_;
  Mutex mutex_;
  CondVar changed_;
  size_t made_ GUARDED_BY(mutex_) = 0;
  bool given_up_ GUARDED_BY(mutex_) = false;
  Digest digest_;  // the thread's, until it has ended
  std::thread thread_;
};

}  // namespace rivulet
