#include "federated/weights/following_digest.h"

namespace rivulet {

FollowingDigest::FollowingDigest(const Model& model) : model_(model) {
  thread_ = std::thread([this] { model_.ComputeDigest(digest_, [this](size_t end) { return Await(end); }); });
}

FollowingDigest::~FollowingDigest() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    given_up_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void FollowingDigest::Made(size_t end) {
  {
    MutexLock lock(mutex_);
    made_ = end;
  }
  changed_.NotifyAll();
}

Digest FollowingDigest::Finish() {
  Made(model_.arena().size());
  thread_.join();
  return digest_;
}

bool FollowingDigest::Await(size_t end) {
  MutexLock lock(mutex_);
  while (made_ < end && !given_up_) changed_.Wait(mutex_);
  return !given_up_;
}

}  // namespace rivulet
