// Accumulator of gradients for synchronous training with backup workers: TensorFlow's ConditionalAccumulator. It adds
// gradients of the current step, drops those of earlier steps, and returns their mean once there are enough.
//
// With N required gradients and N + b workers, no step waits for its slowest b workers. Their gradients arrive after
// the step, and are dropped (Chen et al. 2016, arXiv:1604.00981).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "dataflow/resources/cancellable_wait.h"
#include "dataflow/resources/memory_budget.h"
#include "dataflow/resources/resource_manager.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/program/cancellation.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct AccumulatorOptions {
  std::string name;  // for messages
  DType dtype = DType::kFloat32;
  Shape shape;       // of gradients; if partly unknown, gradients between two takes still have one shape
  bool mean = true;  // otherwise the sum
  std::shared_ptr<MemoryBudget> memory;  // the sum counts against it; null: no limit
};

// Thread-safe. Takes wait in order of arrival. Gradients are added in order of arrival, in their own type, so the same
// order gives the same bits.
class Accumulator final : public Resource, public std::enable_shared_from_this<Accumulator> {
 public:
  static constexpr std::string_view kType = "Accumulator";
  using TakeDone = std::function<void(StatusOr<Tensor>)>;

  // UNIMPLEMENTED: a type other than float16, float32 and float64.
  static StatusOr<std::shared_ptr<Accumulator>> Create(AccumulatorOptions options);

  // Adds a gradient that was computed at `local_step`. Gradients of a step before the current one are dropped, whatever
  // their shape. INVALID_ARGUMENT: another type or shape. RESOURCE_EXHAUSTED: the memory has no room for the sum.
  // ABORTED: the container was reset.
  Status Apply(int64_t local_step, const Tensor& gradient);
  // Waits for `required` gradients. `done` receives the mean (or sum) of all present gradients; they are then removed,
  // and the current step increases by 1. It is called once, without locks, on the thread that completes the take.
  // INVALID_ARGUMENT: `required` is below 1. CANCELLED. ABORTED: the container was reset.
  void Take(int required, const CancellationToken& cancel, TakeDone done);
  // Gradients that were already added are kept.
  void SetGlobalStep(int64_t step);
  int count() const;  // gradients since the last take

  std::string_view type() const override { return kType; }
  size_t bytes() const override;
  Status CheckHandle(const Node& handle) const override;
  void Abandon() override;

 private:
  explicit Accumulator(AccumulatorOptions options) : options_(std::move(options)) {}
  struct Taker {
    int required = 0;
    TakeDone done;
    CancellableWait wait;
  };
  // Removes the first taker and returns its tensor, if there are enough gradients.
  bool TakeFirst(std::shared_ptr<Taker>& taker, Tensor& value) REQUIRES(mutex_);
  void Serve();
  bool Withdraw(const std::shared_ptr<Taker>& taker);  // returns whether it was still waiting
  Status Gone() const;

  const AccumulatorOptions options_;
  mutable Mutex mutex_;
  int64_t step_ GUARDED_BY(mutex_) = 0;
  int count_ GUARDED_BY(mutex_) = 0;
  Tensor sum_ GUARDED_BY(mutex_);
  MemoryCharge sum_memory_ GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Taker>> takers_ GUARDED_BY(mutex_);
  bool abandoned_ GUARDED_BY(mutex_) = false;
};

}  // namespace rivulet
