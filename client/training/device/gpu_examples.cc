#include "client/training/device/gpu_examples.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/gpu/gpu_alignment.h"

namespace rivulet {

GpuExamples::GpuExamples(std::shared_ptr<const ExampleDecoder> decoder, std::vector<size_t> row_bytes,
                         std::shared_ptr<GpuDevice> device, size_t most_bytes)
    : decoder_(std::move(decoder)),
      row_bytes_(std::move(row_bytes)),
      device_(std::move(device)),
      most_bytes_(most_bytes),
      tables_(row_bytes_.size()) {
  for (const size_t bytes : row_bytes_) example_bytes_ += bytes;
}

void GpuExamples::ForgetSetsThatAreGone() {
  std::erase_if(sets_, [this](const auto& set) {
    if (!set.first.expired()) return false;
    // The first row is freed last and reused first, so that a later set with many examples gets neighbouring rows.
    const Rows& rows = set.second.rows;
    for (size_t record = rows.size(); record-- > 0;) {
      if (rows[record] != kNone) FreeRow(rows[record]);
    }
    return true;
  });
}

// At most the number of examples to keep: the tables of a small data set are small.
int64_t GpuExamples::RowsWorthKeeping() const {
  int64_t examples = 0;
  for (const auto& [set, of] : sets_) examples += of.size;
  return std::min(examples, static_cast<int64_t>(most_bytes_ / std::max<size_t>(example_bytes_, 1)));
}

StatusOr<bool> GpuExamples::Reserve(GpuStream& stream, std::span<GpuShare> shares) {
  ForgetSetsThatAreGone();
  int64_t wanted = 0, missing = 0;
  for (GpuShare& share : shares) {
    const std::shared_ptr<const DecodedExamples> examples = share.source->set();
    share.set = examples;
    if (examples == nullptr) share.set = std::make_shared<int>();  // removed with the share
    Set& set = sets_[share.set];
    set.size = examples == nullptr ? share.source->size() : examples->size();
    if (set.rows.size() < static_cast<size_t>(set.size)) set.rows.resize(static_cast<size_t>(set.size), kNone);
    wanted += std::ssize(share.examples);
    for (const uint32_t example : share.examples) {
      const uint32_t record = share.source->RecordOf(example);
      // A missing record is reported by the decoder.
      const uint32_t row = record < set.rows.size() ? set.rows[record] : kNone;
      if (row == kNone) {
        ++missing;
      } else {
        Unlink(row);
        Append(row);
      }
    }
  }
  RIVULET_RETURN_IF_ERROR(ReserveStaging(missing));
  return ReserveTables(stream, wanted);
}

Status GpuExamples::ReserveStaging(int64_t rows) {
  staged_ = 0;
  if (rows <= staging_rows_) return absl::OkStatus();
  size_t bytes = 0;
  for (const size_t row : row_bytes_) bytes += GpuAligned(static_cast<size_t>(rows) * row);
  staging_ = PinnedMemory();  // freed before the larger one is allocated
  staging_rows_ = 0;
  RIVULET_ASSIGN_OR_RETURN(staging_, device_->AllocatePinned(bytes));
  staging_rows_ = rows;
  return absl::OkStatus();
}

std::byte* GpuExamples::Staging(size_t feature, int64_t row) const {
  std::byte* at = staging_.data();
  for (size_t i = 0; i < feature; ++i) at += GpuAligned(static_cast<size_t>(staging_rows_) * row_bytes_[i]);
  return at + static_cast<size_t>(row) * row_bytes_[feature];
}

StatusOr<bool> GpuExamples::ReserveTables(GpuStream& stream, int64_t rows) {
  const int64_t worth = is_full_ ? 0 : RowsWorthKeeping();
  if (capacity_ >= std::max(rows, worth)) return false;
  // Doubled each time, so that data sets which come one after another seldom move existing rows.
  const int64_t most = static_cast<int64_t>(most_bytes_ / std::max<size_t>(example_bytes_, 1));
  const int64_t generous = std::max({rows, worth, std::min(2 * capacity_, most)});
  Status moved = MoveTables(stream, generous);
  // Otherwise each later call would ask the driver again.
  is_full_ = absl::IsResourceExhausted(moved);
  if (is_full_ && capacity_ >= rows) return false;
  if (is_full_ && rows < generous) moved = MoveTables(stream, rows);
  if (absl::IsResourceExhausted(moved) && capacity_ > 0) {
    // Kept examples are dropped for needed ones.
    Drop();
    moved = MoveTables(stream, rows);
  }
  RIVULET_RETURN_IF_ERROR(moved);
  return true;
}

Status GpuExamples::MoveTables(GpuStream& stream, int64_t rows) {
  std::vector<GpuMemory> tables;
  for (const size_t bytes : row_bytes_) {
    RIVULET_ASSIGN_OR_RETURN(tables.emplace_back(),
                             device_->Allocate(static_cast<size_t>(rows) * bytes, fmt::format("{} examples", rows)));
  }
  Status copied;
  for (size_t i = 0; i < tables.size() && copied.ok(); ++i) {
    copied = stream.OnDevice(tables[i].data(), tables_[i].data(), static_cast<size_t>(capacity_) * row_bytes_[i]);
  }
  const Status waited = stream.Wait();
  RIVULET_RETURN_IF_ERROR(copied);
  RIVULET_RETURN_IF_ERROR(waited);
  tables_ = std::move(tables);
  rows_.resize(static_cast<size_t>(rows));
  for (int64_t row = rows; row > capacity_; --row) free_.push_back(static_cast<uint32_t>(row - 1));
  capacity_ = rows;
  return absl::OkStatus();
}

void GpuExamples::Drop() {
  tables_.clear();
  tables_.resize(row_bytes_.size());
  rows_.clear();
  free_.clear();
  capacity_ = 0;
  is_full_ = false;
  oldest_ = newest_ = kNone;
  for (auto& [set, of] : sets_) std::ranges::fill(of.rows, kNone);
}

void GpuExamples::Unlink(uint32_t row) {
  const Row& of = rows_[row];
  (of.older == kNone ? oldest_ : rows_[of.older].newer) = of.newer;
  (of.newer == kNone ? newest_ : rows_[of.newer].older) = of.older;
}

void GpuExamples::Append(uint32_t row) {
  rows_[row].older = newest_;
  rows_[row].newer = kNone;
  (newest_ == kNone ? oldest_ : rows_[newest_].newer) = row;
  newest_ = row;
}

// Rows of the present shares are the newest, and there is room for all of them.
uint32_t GpuExamples::TakeRow() {
  if (free_.empty()) FreeRow(oldest_);
  const uint32_t row = free_.back();
  free_.pop_back();
  Append(row);
  return row;
}

void GpuExamples::FreeRow(uint32_t row) {
  Unlink(row);
  Row& of = rows_[row];
  (*of.of)[of.record] = kNone;
  of.of = nullptr;
  free_.push_back(row);
}

Status GpuExamples::Bring(GpuStream& stream, GpuShare& share) {
  Rows& known = sets_[share.set].rows;
  std::vector<uint32_t> missing;
  for (const uint32_t example : share.examples) {
    const uint32_t record = share.source->RecordOf(example);
    if (record < known.size() && known[record] != kNone) continue;
    missing.push_back(example);
    if (record < known.size()) known[record] = kComing;  // a share may have a record twice
  }
  const auto count = std::ssize(missing);
  if (count > 0) {
    RIVULET_CHECK(staged_ + count <= staging_rows_, "{} examples were not reserved", count);
    std::vector<TensorView> views;
    for (const FeedSpec& feed : decoder_->FeedSpecs(count)) {
      views.push_back({Staging(views.size(), staged_), feed.spec.dtype, feed.spec.shape});
    }
    Status decoded = share.source->Decode(missing, views);
    if (!decoded.ok()) {
      std::ranges::replace(known, kComing, kNone);
      return decoded;
    }
  }
  // Neighbours are copied at once.
  uint32_t first = 0;
  int64_t together = 0;
  for (const uint32_t example : missing) {
    const uint32_t record = share.source->RecordOf(example), row = TakeRow();
    rows_[row].of = &known;
    rows_[row].record = record;
    known[record] = row;
    if (together > 0 && row != first + together) {
      RIVULET_RETURN_IF_ERROR(Copy(stream, first, staged_, together));
      staged_ += std::exchange(together, 0);
    }
    if (together++ == 0) first = row;
  }
  RIVULET_RETURN_IF_ERROR(Copy(stream, first, staged_, together));
  staged_ += together;
  share.rows.clear();
  for (const uint32_t example : share.examples) share.rows.push_back(known[share.source->RecordOf(example)]);
  return absl::OkStatus();
}

Status GpuExamples::Copy(GpuStream& stream, uint32_t row, int64_t staged, int64_t count) {
  for (size_t i = 0; i < row_bytes_.size() && count > 0; ++i) {
    RIVULET_RETURN_IF_ERROR(stream.ToDevice(tables_[i].data() + size_t{row} * row_bytes_[i], Staging(i, staged),
                                            static_cast<size_t>(count) * row_bytes_[i]));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
