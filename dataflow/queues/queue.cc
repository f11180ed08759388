#include "dataflow/queues/queue.h"

#include <algorithm>
#include <cstring>

#include "engine/graph/graph.h"
#include "engine/graph/inference.h"

namespace rivulet {

Queue::Queue(QueueOptions options)
    : options_(std::move(options)),
      counter_{0, 0, static_cast<uint32_t>(options_.seed2), static_cast<uint32_t>(options_.seed2 >> 32)} {}

StatusOr<std::shared_ptr<Queue>> Queue::Create(QueueOptions options) {
  const std::string where = options.op + " '" + options.name + "'";
  if (options.component_types.empty()) return InvalidArgument("{} has no components", where);
  for (const DType type : options.component_types)
    if (SizeOf(type) == 0 || type == DType::kVariant)
      return InvalidArgument("{}: a component is {}, which has no values that could be kept", where, Name(type));
  if (!options.shapes.empty() && options.shapes.size() != options.component_types.size())
    return InvalidArgument("{}: Different number of component types and shapes.", where);
  if (options.padding && options.shapes.empty())
    return InvalidArgument("{}: shapes (possibly with unknown dimensions) must be given for all components", where);
  for (const Shape& shape : options.shapes) {
    if (!shape.known_rank()) return InvalidArgument("{}: a component's rank is unknown", where);
    if (!options.padding && !shape.IsFullyKnown())
      return InvalidArgument("{}: the shape {} is partly unknown; PaddingFIFOQueueV2 takes such elements", where,
                             shape.ToString());
  }
  if (options.capacity == 0) return InvalidArgument("{}: a capacity of 0 holds nothing", where);
  if (options.min_after_dequeue < 0)
    return InvalidArgument("{}: min_after_dequeue {} must be >= 0", where, options.min_after_dequeue);
  if (options.capacity > 0 && options.min_after_dequeue >= options.capacity)
    return InvalidArgument("{}: min_after_dequeue {} must be < capacity {}", where, options.min_after_dequeue,
                           options.capacity);
  return std::shared_ptr<Queue>(new Queue(std::move(options)));
}

Status Queue::CheckComponents(const Tuple& components, bool rows) const {
  const std::vector<DType>& types = options_.component_types;
  if (components.size() != types.size())
    return InvalidArgument("{}: Wrong number of components in tuple. Expected {}, got {}", Described(), types.size(),
                           components.size());
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& component = components[i];
    if (component.empty() || component.dtype() != types[i])
      return InvalidArgument("{}: Type mismatch in tuple component {}. Expected {}, got {}", Described(), i,
                             Name(types[i]), Name(component.dtype()));
    Shape shape = component.shape();
    if (rows) {
      if (shape.rank() == 0)
        return InvalidArgument("{}: EnqueueMany takes rows, and component {} is a scalar", Described(), i);
      if (shape.dim(0) != components[0].shape().dim(0))
        return InvalidArgument(
            "{}: All input tensors must have the same size in the 0th dimension. Component {} has {}, and should have "
            "{}",
            Described(), i, shape.dim(0), components[0].shape().dim(0));
      shape = Shape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
    }
    if (options_.shapes.empty() || Shape::Compatible(shape, options_.shapes[i])) continue;
    return InvalidArgument("{}: Shape mismatch in tuple component {}. Expected {}, got {}", Described(), i,
                           options_.shapes[i].ToString(), shape.ToString());
  }
  return absl::OkStatus();
}

// Tensors have an overhead of some hundred bytes, which dominates in queues of small elements, so it is charged too.
StatusOr<MemoryCharge> Queue::ChargeFor(size_t bytes) const {
  constexpr size_t kTensorOverhead = 128;
  if (options_.memory == nullptr) return MemoryCharge();
  return MemoryCharge::Take(options_.memory, bytes + kTensorOverhead * options_.component_types.size(),
                            fmt::format("{}: an element", Described()));
}

void Queue::Enqueue(Tuple element, const CancellationToken& cancel, EnqueueDone done) {
  if (const Status checked = CheckComponents(element, false); !checked.ok()) return done(checked);
  size_t bytes = 0;
  for (const Tensor& component : element) bytes += component.bytes();
  StatusOr<MemoryCharge> charge = ChargeFor(bytes);
  if (!charge.ok()) return done(charge.status());
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kEnqueue;
  attempt->elements.push_back({std::move(element), *std::move(charge)});
  attempt->enqueued = std::move(done);
  attempt->wait = CancellableWait(cancel);
  Start(std::move(attempt));
}

void Queue::EnqueueMany(const Tuple& rows, const CancellationToken& cancel, EnqueueDone done) {
  if (const Status checked = CheckComponents(rows, true); !checked.ok()) return done(checked);
  const int64_t count = rows[0].shape().dim(0);
  if (count == 0) return done(absl::OkStatus());
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kEnqueue;
  size_t row_bytes = 0;
  for (const Tensor& component : rows) row_bytes += component.bytes() / static_cast<size_t>(count);
  for (int64_t row = 0; row < count; ++row) {
    StatusOr<MemoryCharge> charge = ChargeFor(row_bytes);
    if (!charge.ok()) return done(charge.status());
    Tuple element;
    for (const Tensor& component : rows) {
      const std::span<const int64_t> dims = component.shape().dims();
      StatusOr<Tensor> slice =
          Tensor::Create(component.dtype(), Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())));
      if (!slice.ok()) return done(slice.status());
      if (slice->bytes() > 0)
        std::memcpy(slice->data(), component.data() + static_cast<size_t>(row) * slice->bytes(), slice->bytes());
      element.push_back(*std::move(slice));
    }
    attempt->elements.push_back({std::move(element), *std::move(charge)});
  }
  attempt->enqueued = std::move(done);
  attempt->wait = CancellableWait(cancel);
  Start(std::move(attempt));
}

void Queue::Dequeue(const CancellationToken& cancel, DequeueDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kDequeue;
  attempt->wanted = 1;
  attempt->dequeued = std::move(done);
  attempt->wait = CancellableWait(cancel);
  Start(std::move(attempt));
}

void Queue::DequeueMany(int64_t n, bool up_to, const CancellationToken& cancel, DequeueDone done) {
  if (n < 0) return done(InvalidArgument("{}: DequeueMany/UpTo was asked for {} elements, below 0", Described(), n));
  if (options_.shapes.empty())
    return done(InvalidArgument("{}: {}'s DequeueMany and DequeueUpTo require the components to have specified shapes.",
                                Described(), options_.op));
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = up_to ? Attempt::Kind::kDequeueUpTo : Attempt::Kind::kDequeueMany;
  attempt->wanted = n;
  attempt->dequeued = std::move(done);
  attempt->wait = CancellableWait(cancel);
  if (n == 0) return attempt->dequeued(Assemble(*attempt));
  Start(std::move(attempt));
}

// A Close waits behind earlier enqueues; only if they
// are to be cancelled does it take effect at once.
void Queue::Close(bool cancel_pending_enqueues, EnqueueDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Attempt::Kind::kClose;
  attempt->enqueued = std::move(done);
  std::vector<Finished> finished;
  if (cancel_pending_enqueues) {
    MutexLock lock(mutex_);
    for (const auto& waiting : enqueues_)
      finished.push_back({waiting, Cancelled("{}: Enqueue operation was cancelled", Described())});
    enqueues_.clear();
    closed_ = true;
    Advance(finished);
  }
  Tell(std::move(finished));
  if (cancel_pending_enqueues) return attempt->enqueued(absl::OkStatus());
  Start(std::move(attempt));
}

// Callbacks run without the lock, because they may call this queue again. The cancellation is registered only for an
// attempt that has to wait.
void Queue::Start(std::shared_ptr<Attempt> attempt) {
  const bool dequeue = attempt->dequeued != nullptr;
  // Once it waits, another thread may finish it, which may destroy the owner of this queue.
  const std::shared_ptr<Queue> keep = weak_from_this().lock();
  std::vector<Finished> finished;
  {
    MutexLock lock(mutex_);
    (dequeue ? dequeues_ : enqueues_).push_back(attempt);
    if (abandoned_) {
      (dequeue ? dequeues_ : enqueues_).pop_back();
      finished.push_back({attempt, Aborted("{}: its container was reset", Described())});
    } else {
      Advance(finished);
    }
  }
  const bool over =
      std::any_of(finished.begin(), finished.end(), [&](const Finished& each) { return each.attempt == attempt; });
  Tell(std::move(finished));
  if (over) return;
  // It waits. The token keeps the attempt alive until the attempt is finished.
  attempt->wait.Register([weak = weak_from_this(), attempt] {
    if (const auto queue = weak.lock()) queue->CancelAttempt(attempt);
  });
}

void Queue::CancelAttempt(const std::shared_ptr<Attempt>& attempt) {
  std::vector<Finished> finished;
  {
    MutexLock lock(mutex_);
    const bool dequeue = attempt->dequeued != nullptr;
    Attempts& line = dequeue ? dequeues_ : enqueues_;
    const auto found = std::find(line.begin(), line.end(), attempt);
    if (found == line.end()) return;
    line.erase(found);
    if (dequeue) PutBack(*attempt);
    finished.push_back(
        {attempt, Cancelled("{}: {} operation was cancelled", Described(), dequeue ? "Dequeue" : "Enqueue")});
    Advance(finished);  // later attempts may proceed now
  }
  Tell(std::move(finished));
}

void Queue::Tell(std::vector<Finished> finished) {
  for (Finished& each : finished) {
    Attempt& attempt = *each.attempt;
    attempt.wait.End();
    if (attempt.enqueued) {
      attempt.enqueued(each.status);
    } else if (!each.status.ok()) {
      attempt.dequeued(each.status);
    } else {
      attempt.dequeued(Assemble(attempt));
    }
  }
}

// Only the first attempt of each side is tried: queues are first come, first served, and a small dequeue must not
// overtake an older, larger one. A finished enqueue may enable a dequeue and vice versa, so the loop continues until
// neither proceeds.
void Queue::Advance(std::vector<Finished>& finished) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Attempts* line : {&enqueues_, &dequeues_}) {
      while (!line->empty()) {
        const std::shared_ptr<Attempt> attempt = line->front();
        Status status;
        const Progress progress = attempt->dequeued ? TryDequeue(*attempt, status) : TryEnqueue(*attempt, status);
        changed = changed || progress != Progress::kNone;
        if (progress != Progress::kComplete) break;
        line->pop_front();
        finished.push_back({attempt, status});
      }
    }
  }
}

Queue::Progress Queue::TryEnqueue(Attempt& attempt, Status& status) {
  if (attempt.kind == Attempt::Kind::kClose) {
    if (closed_) status = Cancelled("Queue '{}' is already closed.", options_.name);
    closed_ = true;
    return Progress::kComplete;
  }
  if (closed_) {
    status = Cancelled("{} is closed.", Described());
    return Progress::kComplete;
  }
  Progress progress = Progress::kNone;
  while (!attempt.elements.empty() &&
         (options_.capacity < 0 || static_cast<int64_t>(elements_.size()) < options_.capacity)) {
    elements_.push_back(std::move(attempt.elements.front()));
    attempt.elements.pop_front();
    progress = Progress::kSome;
  }
  return attempt.elements.empty() ? Progress::kComplete : progress;
}

Queue::Progress Queue::TryDequeue(Attempt& attempt, Status& status) {
  auto available = static_cast<int64_t>(elements_.size());
  // No more elements will arrive, so the attempt cannot be completed. Its elements return to the front, for smaller
  // dequeues.
  if (closed_ && available < attempt.wanted) {
    const int64_t wanted = attempt.wanted + static_cast<int64_t>(attempt.elements.size());
    PutBack(attempt);
    available = static_cast<int64_t>(elements_.size());
    if (attempt.kind == Attempt::Kind::kDequeueUpTo && available > 0) {
      attempt.wanted = available;
    } else {
      status = OutOfRange("{} is closed and has insufficient elements (requested {}, current size {})", Described(),
                          wanted, available);
      return Progress::kComplete;
    }
  }
  if (options_.shuffle && !closed_) available -= options_.min_after_dequeue;
  Progress progress = Progress::kNone;
  for (; available > 0 && attempt.wanted > 0; --available, --attempt.wanted) {
    attempt.elements.push_back(TakeOne());
    progress = Progress::kSome;
  }
  return attempt.wanted == 0 ? Progress::kComplete : progress;
}

void Queue::PutBack(Attempt& attempt) {
  // They return to the front of a FIFO queue, or anywhere in a shuffling one.
  while (!attempt.elements.empty()) {
    if (options_.shuffle) {
      elements_.push_back(std::move(attempt.elements.front()));
      attempt.elements.pop_front();
    } else {
      elements_.push_front(std::move(attempt.elements.back()));
      attempt.elements.pop_back();
    }
    ++attempt.wanted;
  }
}

// TensorFlow's PhiloxRandom(seed, seed2), one word per call.
uint32_t Queue::NextWord() {
  if (words_used_ == 4) {
    block_ = Philox4x32({{static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)}}, counter_);
    for (uint32_t& word : counter_)
      if (++word != 0) break;
    words_used_ = 0;
  }
  return block_[words_used_++];
}

Queue::Element Queue::TakeOne() {
  Element element;
  if (options_.shuffle) {
    Element& drawn = elements_[NextWord() % elements_.size()];
    element = std::move(drawn);
    if (&drawn != &elements_.back()) drawn = std::move(elements_.back());
    elements_.pop_back();
  } else {
    element = std::move(elements_.front());
    elements_.pop_front();
  }
  return element;
}

StatusOr<Queue::Tuple> Queue::Assemble(Attempt& attempt) const {
  if (attempt.kind == Attempt::Kind::kDequeue) return std::move(attempt.elements.front().components);
  Tuple batch;
  for (size_t i = 0; i < options_.component_types.size(); ++i) {
    // Rows have the largest size in each unknown dimension, padded with zeros.
    Shape row = options_.shapes[i];
    for (int axis = 0; axis < row.rank(); ++axis) {
      if (row.dim(axis) != kUnknownDim) continue;
      int64_t largest = 0;
      for (const Element& element : attempt.elements)
        largest = std::max(largest, element.components[i].shape().dim(axis));
      row.set_dim(axis, largest);
    }
    std::vector<int64_t> dims = {static_cast<int64_t>(attempt.elements.size())};
    dims.insert(dims.end(), row.dims().begin(), row.dims().end());
    RIVULET_ASSIGN_OR_RETURN(Tensor rows, Tensor::Create(options_.component_types[i], Shape(dims)));
    const size_t item = SizeOf(rows.dtype());
    const size_t row_bytes = attempt.elements.empty() ? 0 : rows.bytes() / attempt.elements.size();
    std::byte* out = rows.data();
    for (const Element& element : attempt.elements) {
      const Tensor& value = element.components[i];
      const int rank = row.rank();
      const int64_t run = rank == 0 ? 1 : value.shape().dim(rank - 1);
      const int64_t runs = value.elements() == 0 ? 0 : value.elements() / run;
      for (int64_t k = 0; k < runs; ++k) {
        int64_t rest = k, offset = 0, stride = rank == 0 ? 1 : row.dim(rank - 1);
        for (int axis = rank - 2; axis >= 0; --axis) {
          offset += rest % value.shape().dim(axis) * stride;
          rest /= value.shape().dim(axis);
          stride *= row.dim(axis);
        }
        std::memcpy(out + static_cast<size_t>(offset) * item, value.data() + static_cast<size_t>(k * run) * item,
                    static_cast<size_t>(run) * item);
      }
      out += row_bytes;
    }
    batch.push_back(std::move(rows));
  }
  return batch;
}

bool Queue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

int64_t Queue::size() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(elements_.size());
}

size_t Queue::bytes() const {
  MutexLock lock(mutex_);
  size_t total = 0;
  for (const Element& element : elements_)
    for (const Tensor& component : element.components) total += component.bytes();
  return total;
}

Status Queue::CheckHandle(const Node& handle) const {
  const auto differs = [&](std::string_view what) {
    return InvalidArgument("Shared queue '{}': {} has other {} than the queue", options_.name, DescribeNode(handle),
                           what);
  };
  if (handle.type() != options_.op + "V2")
    return InvalidArgument("Shared queue '{}' is a {}V2, and {} takes it for another", options_.name, options_.op,
                           DescribeNode(handle));
  if (handle.attr<std::vector<DType>>("component_types") != options_.component_types) return differs("component_types");
  if (handle.attr<std::vector<Shape>>("shapes") != options_.shapes) return differs("shapes");
  if (std::max<int64_t>(handle.attr<int64_t>("capacity"), -1) != options_.capacity) return differs("a capacity");
  if (options_.shuffle && handle.attr<int64_t>("min_after_dequeue") != options_.min_after_dequeue)
    return differs("a min_after_dequeue");
  return absl::OkStatus();
}

void Queue::Abandon() {
  std::vector<Finished> finished;
  {
    MutexLock lock(mutex_);
    abandoned_ = true;
    for (Attempts* line : {&enqueues_, &dequeues_}) {
      for (const auto& attempt : *line)
        finished.push_back({attempt, Aborted("{}: its container was reset", Described())});
      line->clear();
    }
    // The elements are unreachable now, but a graph with the queue's handle may live long.
    elements_.clear();
  }
  Tell(std::move(finished));
}

}  // namespace rivulet
