// Cache of a data set's decoded examples: later tasks of a client, and later evaluations of a test set, do not read,
// check and parse the records again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/reserved_memory.h"
#include "engine/data/dataset.h"
#include "engine/program/program.h"

namespace rivulet {

class ExampleDecoder;

// What decoded examples may take in memory, of all data sets that share it. Thread-safe.
class RowBudget {
 public:
  explicit RowBudget(int64_t bytes) : bytes_(bytes), left_(bytes) {}
  int64_t bytes() const { return bytes_; }
  int64_t left() const { return left_.load(std::memory_order_relaxed); }
  bool Take(int64_t bytes);  // false: there are not so many left, and none are taken
  void GiveBack(int64_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> left_;
};

// One data set under one decoder. Kept is what Extract gives, checked and without what the model is not fed with: bytes
// stay bytes. First come, first kept: what is decoded when the budget is spent is decoded again the next time. Which
// examples are kept is nothing that can be seen in what is fed. They lie in the order in which they were first asked
// for, so that those of one batch, or of one client, lie together. Beside the budget it holds 4 bytes for each record,
// as far as records are used. Thread-safe.
class DecodedExamples {
 public:
  // Keeps nothing without a budget.
  DecodedExamples(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const ExampleDecoder> decoder,
                  std::shared_ptr<RowBudget> budget = nullptr);
  ~DecodedExamples();
  DecodedExamples(const DecodedExamples&) = delete;
  DecodedExamples& operator=(const DecodedExamples&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  int64_t size() const { return dataset_->size(); }

  // Writes record records[i] into row i of the feeds, one per feature, as ExampleDecoder::FeedSpecs says.
  // OUT_OF_RANGE: no such record. Errors of the data begin with "FILE: record N at byte B". INVALID_ARGUMENT: a record
  // that is not what the plan wants; DATA_LOSS: damage. A record with an error is read again each time.
  Status Decode(std::span<const uint32_t> records, std::span<const TensorView> feeds) const;
  // The same for records first, first + 1, …, as many as the feeds have rows, for a reader that changes none of them:
  // where all are kept side by side, and as they are fed, a feed's data becomes their place (64-byte aligned), and
  // nothing is copied; elsewhere they are written to the memory that its data points to.
  Status Feed(uint32_t first, int64_t count, std::span<TensorView> feeds) const;

 private:
  // The place among those kept, from 1 on; 0: not kept.
  uint32_t PlaceOf(uint32_t record) const;
  std::byte* Kept(size_t feature, int64_t place) const;  // counted from 0
  void Keep(std::span<const uint32_t> records, const std::byte* extracted) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const ExampleDecoder> decoder_;
  const std::shared_ptr<RowBudget> budget_;
  int64_t row_bytes_ = 0;                 // of all features
  int64_t capacity_ = 0;                  // places that there are addresses for
  std::vector<ReservedMemory> kept_;      // by feature
  ReservedMemory places_;                 // a uint32_t for each record, read and written atomically
  mutable std::atomic<int64_t> used_{0};  // places given away
};

// The decoded examples of every data set that a plan's clients have, made when they are first asked for. Thread-safe.
class DecodedSets {
 public:
  DecodedSets(std::shared_ptr<const ExampleDecoder> decoder, std::shared_ptr<RowBudget> budget)
      : decoder_(std::move(decoder)), budget_(std::move(budget)) {}
  std::shared_ptr<const DecodedExamples> Of(const std::shared_ptr<const Dataset>& dataset) const;

 private:
  const std::shared_ptr<const ExampleDecoder> decoder_;
  const std::shared_ptr<RowBudget> budget_;
  mutable Mutex mutex_;
  mutable std::map<const Dataset*, std::shared_ptr<const DecodedExamples>> sets_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
