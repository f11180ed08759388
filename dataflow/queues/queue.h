// Queues of elements (tuples of tensors) between runs and threads: first in first out, or shuffling. Behaviour and
// error messages are those of TensorFlow's queues.
//
// Operations are asynchronous. Each waits behind the earlier operations of its side (enqueues and closings; dequeues)
// and runs as soon as possible. Its callback is then called once, without a lock held, on the thread that made the
// operation possible. A large operation may proceed in steps: an EnqueueMany first adds as many elements as fit, and a
// DequeueMany takes available elements and keeps them until it is complete.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/resources/cancellable_wait.h"
#include "dataflow/resources/memory_budget.h"
#include "dataflow/resources/resource_manager.h"
#include "engine/base/mutex.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/program/cancellation.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct QueueOptions {
  std::string name;                    // for messages
  std::string op = "FIFOQueue";        // for messages, without "V2"
  std::vector<DType> component_types;  // of every element
  std::vector<Shape> shapes;           // as many, or empty: unknown. Fully known unless `padding`
  int64_t capacity = -1;               // elements; negative: no limit
  bool padding = false;                // DequeueMany pads with zeros along the unknown dimensions of `shapes`
  bool shuffle = false;
  int64_t min_after_dequeue = 0;         // shuffle: minimum of remaining elements until the queue is closed
  uint64_t seed = 0, seed2 = 0;          // shuffle
  std::shared_ptr<MemoryBudget> memory;  // charged for all elements, including waiting ones; null: no limit
};

// Thread-safe. The same order of operations gives the same elements.
class Queue : public Resource, public std::enable_shared_from_this<Queue> {
 public:
  using Tuple = std::vector<Tensor>;
  using EnqueueDone = std::function<void(Status)>;
  using DequeueDone = std::function<void(StatusOr<Tuple>)>;

  // INVALID_ARGUMENT: no components, a different number of shapes, unknown shapes that must be known, a capacity of 0,
  // a min_after_dequeue that is not below the capacity.
  static StatusOr<std::shared_ptr<Queue>> Create(QueueOptions options);

  // INVALID_ARGUMENT (at once): components of another number, type or shape. RESOURCE_EXHAUSTED (at once): no memory.
  // CANCELLED: the queue is closed, `cancel` was cancelled, or Close cancelled it.
  void Enqueue(Tuple element, const CancellationToken& cancel, EnqueueDone done);
  // Adds one element per row; zero rows are done at once.
  void EnqueueMany(const Tuple& rows, const CancellationToken& cancel, EnqueueDone done);
  // OUT_OF_RANGE: the queue is closed and has too few elements. CANCELLED; elements already taken are returned.
  void Dequeue(const CancellationToken& cancel, DequeueDone done);
  // Takes `n` elements, stacked in each component along a new first dimension; `up_to`: a closed queue may give fewer,
  // at least one. INVALID_ARGUMENT: n < 0, components of unknown shape.
  void DequeueMany(int64_t n, bool up_to, const CancellationToken& cancel, DequeueDone done);
  // Waiting enqueues are completed first, or end with CANCELLED. CANCELLED: the queue is already closed.
  void Close(bool cancel_pending_enqueues, EnqueueDone done);
  bool closed() const;
  int64_t size() const;  // elements in the queue, without waiting or taken ones

  std::string_view type() const override { return "Queue"; }
  size_t bytes() const override;
  Status CheckHandle(const Node& handle) const override;
  void Abandon() override;  // ends waiting and later operations with ABORTED
  const QueueOptions& options() const { return options_; }

 private:
  explicit Queue(QueueOptions options);

  struct Element {
    Tuple components;
    MemoryCharge memory;
  };
  struct Attempt {
    enum class Kind { kEnqueue, kClose, kDequeue, kDequeueMany, kDequeueUpTo };
    Kind kind;
    std::deque<Element> elements;  // still to be added, or taken so far
    int64_t wanted = 0;            // number that a dequeue still needs
    EnqueueDone enqueued;
    DequeueDone dequeued;
    CancellableWait wait;
  };
  using Attempts = std::list<std::shared_ptr<Attempt>>;
  // Finished attempts, with the results for their callbacks, which run without the lock.
  struct Finished {
    std::shared_ptr<Attempt> attempt;
    Status status;
  };

  void Start(std::shared_ptr<Attempt> attempt);
  void CancelAttempt(const std::shared_ptr<Attempt>& attempt);
  // Runs all operations that are possible.
  void Advance(std::vector<Finished>& finished) REQUIRES(mutex_);
  enum class Progress { kNone, kSome, kComplete };
  Progress TryEnqueue(Attempt& attempt, Status& status) REQUIRES(mutex_);
  Progress TryDequeue(Attempt& attempt, Status& status) REQUIRES(mutex_);
  Element TakeOne() REQUIRES(mutex_);
  void PutBack(Attempt& attempt) REQUIRES(mutex_);
  void Tell(std::vector<Finished> finished);
  StatusOr<Tuple> Assemble(Attempt& attempt) const;
  Status CheckComponents(const Tuple& components, bool rows) const;
  StatusOr<MemoryCharge> ChargeFor(size_t bytes) const;  // for one element's tensors
  uint32_t NextWord() REQUIRES(mutex_);
  std::string Described() const { return options_.op + " '" + options_.name + "'"; }

  const QueueOptions options_;
  mutable Mutex mutex_;
  std::deque<Element> elements_ GUARDED_BY(mutex_);
  Attempts enqueues_ GUARDED_BY(mutex_), dequeues_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  PhiloxBlock counter_ GUARDED_BY(mutex_), block_ GUARDED_BY(mutex_);
  size_t words_used_ GUARDED_BY(mutex_) = 4;
};

}  // namespace rivulet
