// Examples stored on a device: one table per feature, with as many rows as there is room for, shared by all lanes of a
// trainer. A client's examples stay there and are not decoded or copied again for its next task. When room runs out,
// the least recently used rows are replaced.
//
// A row is a record of a data set (ExampleSource::set), so clients that share records share rows. A lane reads its
// examples by row number.
//
//   (Reserve Bring* stream.Wait())*
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/gpu/gpu_device.h"
#include "federated/plan/example_source.h"

namespace rivulet {

// The examples of a lane, and their rows.
struct GpuShare {
  const ExampleSource* source = nullptr;
  std::vector<uint32_t> examples;             // of the source, each once
  std::vector<uint32_t> rows;                 // of the table, in the same order; set by Bring
  std::shared_ptr<const void> set = nullptr;  // the data set of the records; set by Reserve
};

// Cache of examples on a device. Used by one trainer. Not thread-safe.
class GpuExamples {
 public:
  // `row_bytes`: of an example, by feature. Keeps `most_bytes`, or the need of a Reserve call if that is more.
  GpuExamples(std::shared_ptr<const ExampleDecoder> decoder, std::vector<size_t> row_bytes,
              std::shared_ptr<GpuDevice> device, size_t most_bytes);

  // Makes room for these shares: their present rows stay until the next call. Uses the stream, and waits for it, if
  // the tables move. RESOURCE_EXHAUSTED: they do not fit on the device, and nothing is kept. True: the tables have
  // moved.
  StatusOr<bool> Reserve(GpuStream& stream, std::span<GpuShare> shares);
  // Decodes the missing examples of a share, enqueues their copies on the stream, and sets all row numbers. For the
  // shares of the last Reserve, once each. An error is the source's, and concerns no other share.
  Status Bring(GpuStream& stream, GpuShare& share);
  // Removes all rows and frees the memory: also if enqueued work may have failed.
  void Drop();

  const std::byte* table(size_t feature) const { return tables_[feature].data(); }
  size_t bytes() const { return static_cast<size_t>(capacity_) * example_bytes_; }  // of the device

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kComing = kNone - 1;
  using Rows = std::vector<uint32_t>;  // by record; kNone: not stored
  struct Row {
    uint32_t older = kNone, newer = kNone;  // neighbours among the rows in use, by age
    Rows* of = nullptr;
    uint32_t record = 0;
  };

  void ForgetSetsThatAreGone();
  int64_t RowsWorthKeeping() const;
  Status ReserveStaging(int64_t rows);
  StatusOr<bool> ReserveTables(GpuStream& stream, int64_t rows);
  Status MoveTables(GpuStream& stream, int64_t rows);
  void Unlink(uint32_t row);
  void Append(uint32_t row);
  uint32_t TakeRow();
  void FreeRow(uint32_t row);
  Status Copy(GpuStream& stream, uint32_t row, int64_t staged, int64_t count);
  std::byte* Staging(size_t feature, int64_t row) const;

  struct Set {
    int64_t size = 0;
    Rows rows;
  };
  const std::shared_ptr<const ExampleDecoder> decoder_;
  const std::vector<size_t> row_bytes_;
  const std::shared_ptr<GpuDevice> device_;
  const size_t most_bytes_;
  size_t example_bytes_ = 0;
  int64_t capacity_ = 0;  // rows
  bool is_full_ = false;  // the device had no room for all rows that are worth keeping
  std::vector<GpuMemory> tables_;
  std::vector<Row> rows_;
  std::vector<uint32_t> free_;  // the last is taken first
  uint32_t oldest_ = kNone, newest_ = kNone;
  // Keyed by an object that lives as long as the set, and is not kept alive by this.
  std::map<std::weak_ptr<const void>, Set, std::owner_less<>> sets_;
  PinnedMemory staging_;
  int64_t staging_rows_ = 0, staged_ = 0;
};

}  // namespace rivulet
