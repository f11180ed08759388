// The model versions of a run that are in use: the newest one, and the earlier ones that open tasks start from or
// clients measure. Thread-safe, with a separate lock under which nothing else is called.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/model_store/model_store.h"
#include "engine/base/mutex.h"
#include "federated/transport/blob_reader.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Versions are valid for as long as a caller holds them.
class Versions {
 public:
  using Version = std::shared_ptr<const ServedVersion>;
  Versions(ServedVersion current, std::vector<ServedVersion> earlier);

  Version current() const;
  // Finds the version of a task that is open, or was when the caller read its lease. Null: no longer in use.
  Version Of(int64_t round) const;
  // Finds a version by the digest of the model that clients start from. Null: not in use.
  Version Find(const Digest& sent) const;
  // Reads the bytes of a model or of a broadcast beside it. Nullopt: neither is in use.
  std::optional<Blob> Read(const BlobId& blob) const;

  // Replaces the current version. The previous one stays in use if `keeps` is true.
  void SetCurrent(ServedVersion version, bool keeps);
  // Drops earlier versions that are not `needed`.
  void Keep(const std::function<bool(int64_t round)>& needed);

 private:
  mutable Mutex mutex_;
  Version current_ GUARDED_BY(mutex_);
  std::map<int64_t, Version> earlier_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
