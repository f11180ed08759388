// Where the updates of one attempt come together: one aggregation behind one lock, so that folds of an attempt follow
// one another while all else goes on.
#pragma once

#include <memory>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet {

// Thread-safe.
class Pot {
 public:
  explicit Pot(std::unique_ptr<Aggregation> aggregation) : aggregation_(std::move(aggregation)) {}

  // As Aggregation::Take, with the weights of what the update declares: checks, measures and adds in one pass; what
  // fails leaves no trace.
  StatusOr<Aggregation::Taken> Take(const UpdateView& update);
  // As Aggregation::Merge; `fold_seconds` were spent by the site that made the partial.
  Status Merge(Partial&& partial, double fold_seconds);
  // What has been gathered. Nothing goes in any more; call it once, when nobody folds.
  std::unique_ptr<Aggregation> Close();
  double fold_seconds() const;  // so far, by all who folded

 private:
  mutable Mutex mutex_;
  std::unique_ptr<Aggregation> aggregation_ GUARDED_BY(mutex_);
  double fold_seconds_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
