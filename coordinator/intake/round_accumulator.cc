#include "coordinator/intake/round_accumulator.h"

#include <chrono>

namespace rivulet {
namespace {

double FoldedFor(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

StatusOr<Aggregation::Taken> RoundAccumulator::Take(const UpdateView& update) {
  MutexLock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  const StatusOr<Weights> weights = WeightsOf(aggregation_->spec(), update.scalars, {});
  StatusOr<Aggregation::Taken> taken = weights.ok() ? aggregation_->Take(update, *weights) : weights.status();
  fold_seconds_ += FoldedFor(begin);
  return taken;
}

Status RoundAccumulator::Merge(Partial&& partial, double fold_seconds) {
  MutexLock lock(mutex_);
  if (aggregation_ == nullptr) return FailedPrecondition("the attempt was closed before its sum was whole");
  const auto begin = std::chrono::steady_clock::now();
  const Status merged = aggregation_->Merge(std::move(partial));
  fold_seconds_ += FoldedFor(begin) + fold_seconds;
  return merged;
}

std::unique_ptr<Aggregation> RoundAccumulator::Close() {
  MutexLock lock(mutex_);
  return std::move(aggregation_);
}

double RoundAccumulator::fold_seconds() const {
  MutexLock lock(mutex_);
  return fold_seconds_;
}

}  // namespace rivulet
