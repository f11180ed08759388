// Cache of a data set's decoded examples, so that later tasks of a client and later evaluations of a test set need not
// read, check and parse the records again.
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

// Memory budget for decoded examples, shared by several data sets. Thread-safe.
class RowBudget {
 public:
  explicit RowBudget(int64_t bytes) : bytes_(bytes), left_(bytes) {}
  int64_t bytes() const { return bytes_; }
  int64_t left() const { return left_.load(std::memory_order_relaxed); }
  bool Take(int64_t bytes);  // false: too few are left, and none are taken
  void GiveBack(int64_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> left_;
};

// One data set with one decoder. The cache stores the output of Extract, checked and without unused features;
// bytes stay bytes. Entries are never evicted: once the budget is spent, further examples are decoded each
// time. Caching does not change the fed values. Entries are in the order of their first use, so those of one
// batch or client are contiguous. Besides the budget it uses 4 bytes per record, for used pages of records.
// Thread-safe.
class DecodedExamples {
 public:
  // Without a budget nothing is cached.
  DecodedExamples(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const ExampleDecoder> decoder,
                  std::shared_ptr<RowBudget> budget = nullptr);
  ~DecodedExamples();
  DecodedExamples(const DecodedExamples&) = delete;
  DecodedExamples& operator=(const DecodedExamples&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  int64_t size() const { return dataset_->size(); }

  // Writes record records[i] into row i of the feeds, one feed per feature, as ExampleDecoder::FeedSpecs describes.
  // OUT_OF_RANGE: no such record. Data errors start with "FILE: record N at byte B". INVALID_ARGUMENT: the record does
  // not fit the plan; DATA_LOSS: damage. A record with an error is read again each time.
  Status Decode(std::span<const uint32_t> records, std::span<const TensorView> feeds) const;
  // The same for records first, first + 1, …, one per row of the feeds, for callers that only read them. If all are
  // cached, contiguous and stored as fed, a feed's data is set to the cache (64-byte aligned) without a copy. Otherwise
  // they are written to the memory to which the feed's data points.
  Status Feed(uint32_t first, int64_t count, std::span<TensorView> feeds) const;

 private:
  // The index in the cache, from 1 on; 0: not cached.
  uint32_t PlaceOf(uint32_t record) const;
  std::byte* Kept(size_t feature, int64_t place) const;  // `place` starts at 0
  void Keep(std::span<const uint32_t> records, const std::byte* extracted) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const ExampleDecoder> decoder_;
  const std::shared_ptr<RowBudget> budget_;
  int64_t row_bytes_ = 0;                 // of all features
  int64_t capacity_ = 0;                  // places with reserved addresses
  std::vector<ReservedMemory> kept_;      // by feature
  ReservedMemory places_;                 // a uint32_t for each record, read and written atomically
  mutable std::atomic<int64_t> used_{0};  // places in use
};

// The decoded examples of all data sets of a plan's clients, created at first use. Thread-safe.
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
