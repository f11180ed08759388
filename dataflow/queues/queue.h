// Queues of elements (tuples of tensors) between runs and threads: first in first out, or shuffling. Behaviour and
// error messages are those of TensorFlow's queues.
//
// Operations are asynchronous. Each waits behind the earlier operations of its side (enqueues and closings; dequeues)
// and runs as soon as it can. Its callback is then called once, without a lock held, on the thread that made the
// operation possible. A large operation may proceed in steps. An EnqueueMany with too many elements first adds as many
// as fit. A DequeueMany takes the available elements and keeps them until it is complete.
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
  std::string op = "FIFOQueue";        // likewise, without "V2"
  std::vector<DType> component_types;  // of every element
  std::vector<Shape> shapes;           // as many, or none: not known. Fully known, save for `padding`
  int64_t capacity = -1;               // elements; negative: no limit
  bool padding = false;                // DequeueMany pads with zeros along the unknown dimensions of `shapes`
  bool shuffle = false;
  int64_t min_after_dequeue = 0;         // shuffle: elements that stay to choose from until the queue is closed
  uint64_t seed = 0, seed2 = 0;          // shuffle
  std::shared_ptr<MemoryBudget> memory;  // elements count against it, also those that wait outside; null: no limit
};

// Thread-safe. With the same order of operations the same elements come out.
class Queue : public Resource, public std::enable_shared_from_this<Queue> {
 public:
  using Tuple = std::vector<Tensor>;
  using EnqueueDone = std::function<void(Status)>;
  using DequeueDone = std::function<void(StatusOr<Tuple>)>;

  // INVALID_ARGUMENT: no components, another number of shapes, shapes that must be known, a capacity of 0, a
  // min_after_dequeue that does not fit below the capacity.
  static StatusOr<std::shared_ptr<Queue>> Create(QueueOptions options);

  // INVALID_ARGUMENT (at once): components of another number, type or shape. RESOURCE_EXHAUSTED (at once): the memory
  // has no room. CANCELLED: the queue is closed, `cancel` was cancelled, or a closing cancelled it.
  void Enqueue(Tuple element, const CancellationToken& cancel, EnqueueDone done);
  // One element for each row; none of rows = 0 is done at once.
  void EnqueueMany(const Tuple& rows, const CancellationToken& cancel, EnqueueDone done);
  // OUT_OF_RANGE: the queue is closed and has too few elements. CANCELLED; what was taken by then goes back.
  void Dequeue(const CancellationToken& cancel, DequeueDone done);
  // `n` elements, each component along a new first dimension; `up_to`: fewer (at least one) of a closed queue.
  // INVALID_ARGUMENT: n < 0, components of unknown shape.
  void DequeueMany(int64_t n, bool up_to, const CancellationToken& cancel, DequeueDone done);
  // Enqueues that wait come first, or end with CANCELLED. CANCELLED: it is closed already.
  void Close(bool cancel_pending_enqueues, EnqueueDone done);
  bool closed() const;
  int64_t size() const;  // elements that are neither waiting outside nor taken

  std::string_view type() const override { return "Queue"; }
  size_t bytes() const override;
  Status CheckHandle(const Node& handle) const override;
  void Abandon() override;  // all that waits ends with ABORTED, and so does what comes
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
    std::deque<Element> elements;  // still to be put in, or taken so far
    int64_t wanted = 0;            // elements that a dequeue still lacks
    EnqueueDone enqueued;
    DequeueDone dequeued;
    CancellableWait wait;
  };
  using Attempts = std::list<std::shared_ptr<Attempt>>;
  // Attempts that are over, with what they are told once the lock is gone.
  struct Finished {
    std::shared_ptr<Attempt> attempt;
    Status status;
  };

  void Start(std::shared_ptr<Attempt> attempt);
  void CancelAttempt(const std::shared_ptr<Attempt>& attempt);
  // Carries out what can be, as long as anything can.
  void Advance(std::vector<Finished>& finished) REQUIRES(mutex_);
  enum class Progress { kNone, kSome, kComplete };
  Progress TryEnqueue(Attempt& attempt, Status& status) REQUIRES(mutex_);
  Progress TryDequeue(Attempt& attempt, Status& status) REQUIRES(mutex_);
  Element TakeOne() REQUIRES(mutex_);
  void PutBack(Attempt& attempt) REQUIRES(mutex_);
  void Tell(std::vector<Finished> finished);
  StatusOr<Tuple> Assemble(Attempt& attempt) const;
  Status CheckComponents(const Tuple& components, bool rows) const;
  StatusOr<MemoryCharge> ChargeFor(size_t bytes) const;  // of one element's tensors
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
