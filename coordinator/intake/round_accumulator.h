// The sum of one attempt's updates: one aggregation behind a separate lock. Folds of an attempt run one after another;
// the rest of the coordinator does not wait for them.
#pragma once

#include <memory>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet {

// Accumulator of updates. Thread-safe.
class RoundAccumulator {
 public:
  explicit RoundAccumulator(std::unique_ptr<Aggregation> aggregation) : aggregation_(std::move(aggregation)) {}

  // As Aggregation::Take, with the weights that the update declares: checks, measures and adds in one pass. A refused
  // update leaves no trace.
  StatusOr<Aggregation::Taken> Take(const UpdateView& update);
  // As Aggregation::Merge, and FAILED_PRECONDITION after Close. `fold_seconds`: the time of the site that made the
  // sum.
  Status Merge(Partial&& partial, double fold_seconds);
  // The finished sum. Call it once, after the last fold.
  std::unique_ptr<Aggregation> Close();
  double fold_seconds() const;  // of all folds so far

 private:
  mutable Mutex mutex_;
  std::unique_ptr<Aggregation> aggregation_ GUARDED_BY(mutex_);
  double fold_seconds_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
