// Input pipelines: a source of elements and a sequence of stages that transform them. A Pipeline is an immutable,
// shared description, except that a shuffle counts its iterations. One thread at a time uses an iterator. The same
// pipeline with the same seeds gives the same elements in the same order, for any number of threads.
//
//   RIVULET_ASSIGN_OR_RETURN(auto pipeline, BuildPipeline(graph, batches, environment));
//   RIVULET_ASSIGN_OR_RETURN(auto iterator, pipeline->MakeIterator({}));
//   for (Element element;;) {
//     RIVULET_ASSIGN_OR_RETURN(const bool more, iterator->Next(cancel, element));
//     if (!more) break;
//     RIVULET_ASSIGN_OR_RETURN(auto components, element.Components());
//     …
//   }
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/input/element.h"
#include "engine/program/cancellation.h"

namespace rivulet {

// Limits for an untrusted pipeline, over all its iterators. Thread-safe.
class InputBudget {
 public:
  struct Limits {
    int64_t max_elements = -1;    // passed between stages, over all stages; negative: no limit
    size_t max_held_bytes = 0;    // in buffers: shuffles, batches, prefetches; 0: no limit
    int max_threads = -1;         // of prefetches; further ones run without a thread; negative: no limit
    int64_t max_loop_steps = -1;  // of loops in one call of a function; negative: no limit
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  };
  explicit InputBudget(const Limits& limits) : limits_(limits) {}
  // RESOURCE_EXHAUSTED names the limit, DEADLINE_EXCEEDED the deadline; both start with `where`.
  Status CountElement(std::string_view where);
  Status Hold(size_t bytes, std::string_view where);
  void Release(size_t bytes);
  bool TakeThread();  // false: the limit is reached
  void GiveThread();
  const Limits& limits() const { return limits_; }

 private:
  const Limits limits_;
  std::atomic<int64_t> elements_{0};
  std::atomic<size_t> held_{0};
  std::atomic<int> threads_{0};
};

// Bytes charged to a budget for the life of this object.
class HeldBytes {
 public:
  explicit HeldBytes(std::shared_ptr<InputBudget> budget) : budget_(std::move(budget)) {}
  ~HeldBytes() { Drop(bytes_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  Status Add(size_t bytes, std::string_view where) {
    if (budget_ != nullptr) RIVULET_RETURN_IF_ERROR(budget_->Hold(bytes, where));
    bytes_ += bytes;
    return absl::OkStatus();
  }
  void Drop(size_t bytes) {
    if (budget_ != nullptr) budget_->Release(bytes);
    bytes_ -= bytes;
  }

 private:
  const std::shared_ptr<InputBudget> budget_;
  size_t bytes_ = 0;
};

struct IteratorContext {
  std::shared_ptr<InputBudget> budget;  // null: no limits
  int nested = 0;                       // number of surrounding data sets whose elements were data sets
};

class PipelineIterator {
 public:
  virtual ~PipelineIterator() = default;
  // Returns false at the end, with `element` unchanged. Blocks while elements are made elsewhere. CANCELLED soon after
  // `cancel`; errors start with their stage, and errors about a record have its file, number and byte. After an error
  // the iterator is finished.
  StatusOr<bool> Next(const CancellationToken& cancel, Element& element);

 protected:
  // `where` is the stage's, and must outlive the iterator.
  PipelineIterator(const IteratorContext& context, std::string_view where) : context_(context), where_(where) {}
  virtual StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) = 0;
  const IteratorContext& context() const { return context_; }
  std::string_view where() const { return where_; }

 private:
  const IteratorContext context_;
  const std::string_view where_;
};

class Pipeline : public std::enable_shared_from_this<Pipeline> {
 public:
  virtual ~Pipeline() = default;
  virtual StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const = 0;
  // For every element; dimensions may be unknown.
  const std::vector<TensorSpec>& specs() const { return specs_; }
  // "ShuffleDataset 'shuffle'": the stage's name in messages.
  const std::string& where() const { return where_; }
  // Number of stages that an element passes, including this one (set by engine/input/build_pipeline.h).
  int64_t stages() const { return stages_; }
  void set_stages(int64_t stages) { stages_ = stages; }

 protected:
  Pipeline(std::string where, std::vector<TensorSpec> specs) : where_(std::move(where)), specs_(std::move(specs)) {}

 private:
  const std::string where_;
  const std::vector<TensorSpec> specs_;
  int64_t stages_ = 1;
};

// An iterator that keeps its pipeline, of type P, alive.
template <typename P>
class IteratorOf : public PipelineIterator {
 public:
  IteratorOf(const P& pipeline, const IteratorContext& context)
      : PipelineIterator(context, pipeline.where()), keep_(pipeline.shared_from_this()), pipeline_(pipeline) {}

 protected:
  const P& pipeline() const { return pipeline_; }

 private:
  const std::shared_ptr<const Pipeline> keep_;
  const P& pipeline_;
};

}  // namespace rivulet
