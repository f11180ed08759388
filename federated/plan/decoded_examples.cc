#include "federated/plan/decoded_examples.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "engine/base/available_memory.h"
#include "engine/base/error_facts.h"
#include "federated/plan/example_source.h"

namespace rivulet {
namespace {

constexpr size_t kFeedAlignment = 64;  // alignment of a program's feeds
// Vector loads of a kernel may extend beyond the last row.
constexpr size_t kBeyondLastRow = 64;

}  // namespace

bool RowBudget::Take(int64_t bytes) {
  int64_t left = left_.load(std::memory_order_relaxed);
  while (left >= bytes)
    if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) return true;
  return false;
}

DecodedExamples::DecodedExamples(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const ExampleDecoder> decoder,
                                 std::shared_ptr<RowBudget> budget)
    : dataset_(std::move(dataset)), decoder_(std::move(decoder)), budget_(std::move(budget)) {
  for (const ExampleDecoder::Stored& stored : decoder_->stored()) row_bytes_ += static_cast<int64_t>(stored.bytes);
  const int64_t size = dataset_->size();
  if (budget_ == nullptr || row_bytes_ == 0 || size > UINT32_MAX) return;
  int64_t rows = std::min(size, budget_->bytes() / row_bytes_);
  // Reduces the budget to the memory that is available, so that small machines cache fewer examples instead of running
  // out of memory. Small budgets skip this check, because it reads files.
  constexpr int64_t kLooked = int64_t{64} << 20;
  if (rows * row_bytes_ >= kLooked)
    rows = std::min(rows, static_cast<int64_t>(std::min<size_t>(AvailableMemory() / 2, INT64_MAX)) / row_bytes_);
  if (rows == 0) return;
  places_ = ReservedMemory(static_cast<size_t>(size) * sizeof(uint32_t));
  bool given = places_.data() != nullptr;
  for (const ExampleDecoder::Stored& stored : decoder_->stored()) {
    kept_.emplace_back(static_cast<size_t>(rows) * stored.bytes + kBeyondLastRow);
    given = given && kept_.back().data() != nullptr;
  }
  if (given) capacity_ = rows;
}

DecodedExamples::~DecodedExamples() {
  if (budget_ != nullptr) budget_->GiveBack(used_.load() * row_bytes_);
}

uint32_t DecodedExamples::PlaceOf(uint32_t record) const {
  if (capacity_ == 0) return 0;
  auto* const places = reinterpret_cast<uint32_t*>(places_.data());
  return std::atomic_ref(places[record]).load(std::memory_order_acquire);
}

std::byte* DecodedExamples::Kept(size_t feature, int64_t place) const {
  return kept_[feature].data() + static_cast<size_t>(place) * decoder_->stored()[feature].bytes;
}

Status DecodedExamples::Decode(std::span<const uint32_t> records, std::span<const TensorView> feeds) const {
  // Kept per thread, so that a step allocates nothing.
  thread_local std::string bytes;
  thread_local std::vector<std::byte> extracted;
  thread_local std::vector<uint32_t> missing;
  missing.clear();
  const std::span<const ExampleDecoder::Stored> stored = decoder_->stored();
  const size_t example_bytes = decoder_->extracted_bytes();
  const bool room = used_.load(std::memory_order_relaxed) < capacity_;
  for (size_t row = 0; row < records.size(); ++row) {
    const uint32_t record = records[row];
    if (static_cast<int64_t>(record) >= size()) return OutOfRange("example {} of {}", record, size());
    if (const uint32_t place = PlaceOf(record); place > 0) {
      for (size_t i = 0; i < stored.size(); ++i)
        decoder_->Expand(i, Kept(i, place - 1), 1, feeds[i].data + row * stored[i].fed_bytes);
      continue;
    }
    const size_t at = missing.size() * example_bytes;
    if (extracted.size() < at + example_bytes) extracted.resize(at + example_bytes);
    const Status read = dataset_->Read(record, bytes);
    if (!read.ok()) return WithFact(read, kRecordFact, std::to_string(record));
    const Status status = decoder_->Extract(bytes, extracted.data() + at);
    if (!status.ok()) return WithFact(Annotate(status, dataset_->Where(record)), kRecordFact, std::to_string(record));
    for (size_t i = 0; i < stored.size(); ++i)
      decoder_->Expand(i, extracted.data() + at + stored[i].offset, 1, feeds[i].data + row * stored[i].fed_bytes);
    if (room) missing.push_back(record);
  }
  if (!missing.empty()) Keep(missing, extracted.data());
  return absl::OkStatus();
}

// Reserves a batch's places at once, not one by one: concurrent threads get contiguous places, and a batch requested
// again in the same order is contiguous. An example is published after it is written. Two threads may decode the same
// record; the second keeps the first one's copy.
void DecodedExamples::Keep(std::span<const uint32_t> records, const std::byte* extracted) const {
  int64_t taken = std::min(std::ssize(records), capacity_ - used_.load(std::memory_order_relaxed));
  while (taken > 0 && !budget_->Take(taken * row_bytes_)) taken /= 2;
  if (taken <= 0) return;
  const int64_t begin = used_.fetch_add(taken, std::memory_order_relaxed);
  const int64_t end = std::min(begin + taken, capacity_);  // other threads may have reserved the rest
  int64_t place = begin;
  const std::span<const ExampleDecoder::Stored> stored = decoder_->stored();
  auto* const places = reinterpret_cast<uint32_t*>(places_.data());
  for (size_t row = 0; row < records.size() && place < end; ++row) {
    std::atomic_ref published(places[records[row]]);
    if (published.load(std::memory_order_relaxed) != 0) continue;
    const std::byte* const example = extracted + row * decoder_->extracted_bytes();
    for (size_t i = 0; i < stored.size(); ++i) std::memcpy(Kept(i, place), example + stored[i].offset, stored[i].bytes);
    published.store(static_cast<uint32_t>(++place), std::memory_order_release);
  }
  // Returns unused places, unless another thread has reserved later ones meanwhile.
  int64_t mine = begin + taken;
  if (place < mine && used_.compare_exchange_strong(mine, place))
    budget_->GiveBack((begin + taken - place) * row_bytes_);
}

Status DecodedExamples::Feed(uint32_t first, int64_t count, std::span<TensorView> feeds) const {
  if (static_cast<int64_t>(first) + count > size())
    return OutOfRange("examples {} to {} of {}", first, static_cast<int64_t>(first) + count - 1, size());
  const auto rows = static_cast<uint32_t>(count);
  const uint32_t place = PlaceOf(first);
  uint32_t aside = 0;  // number of adjacent rows
  while (place > 0 && aside < rows && PlaceOf(first + aside) == place + aside) ++aside;
  if (aside < rows) {
    thread_local std::vector<uint32_t> records;
    records.resize(rows);
    std::iota(records.begin(), records.end(), first);
    return Decode(records, feeds);
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    std::byte* const kept = Kept(i, place - 1);
    if (decoder_->stored()[i].as_fed && reinterpret_cast<uintptr_t>(kept) % kFeedAlignment == 0)
      feeds[i].data = kept;
    else
      decoder_->Expand(i, kept, count, feeds[i].data);
  }
  return absl::OkStatus();
}

std::shared_ptr<const DecodedExamples> DecodedSets::Of(const std::shared_ptr<const Dataset>& dataset) const {
  MutexLock lock(mutex_);
  auto& set = sets_[dataset.get()];
  if (set == nullptr) set = std::make_shared<const DecodedExamples>(dataset, decoder_, budget_);
  return set;
}

}  // namespace rivulet
