// A partial sum of the updates of one base version, complete enough to continue in another process or after a restart.
// Crash recovery, aggregators, worker threads and ranks all move and merge partial sums.
//
// Their byte format, with all numbers little-endian:
//
//   "RVPART02"  u32 length, proto::PartialHeader, u32 CRC-32C of all before
//   for each part, in the spec's order, its section:
//     u32 length, name, u64 bytes, u32 CRC-32C of these three
//     its body in blocks of 1 MiB, the last with the rest, each followed by its u32 CRC-32C
//
// A body is the part's sums (i64 or i32, wire order), or the updates for a rule that needs them all (updates_rule.h).
// Updates are in the order of their tasks: u32 index of the task in the header, i64 weight, values (f32, wire order).
//
// A part with two 64-bit sums, 1 and -1: 05 00 00 00 "delta" 10 00 00 00 00 00 00 00 CRC, 01 00 .. 00 ff ff .. ff CRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/aggregation/sum_array.h"
#include "federated/aggregation/sum_files.h"
#include "federated/aggregation/wide_sum.h"
#include "federated/tasks/task.h"

namespace rivulet {

class UpdateSpool;  // federated/aggregation/update_spool.h

// One update's part on disk: its values as float32, in wire order.
struct SpooledPart {
  TaskId task;
  int64_t weight = 0;  // in units of 2^-weight_fraction_bits
  std::shared_ptr<const UpdateSpool> spool;
  int64_t offset = 0;  // of the first value in the spool
};

struct PartSums {
  // Two's complement with wrap-around; exactly one of the two is used, according to the part's sum_bits.
  SumArray<int64_t> sums;
  SumArray<int32_t> sums32;
  int64_t weight_sum = 0;            // in units of 2^-weight_fraction_bits
  int64_t updates = 0;               // number of updates with this part
  int64_t nonzeros = 0;              // number of non-zero values
  int64_t lost_nonzeros = 0;         // those of them that were rounded to zero
  std::vector<SpooledPart> spooled;  // instead of sums, for a rule that needs all updates
};

struct Partial {
  Digest spec;                       // AggregationSpec::digest
  int64_t base_version = 0;          // from which all its tasks started
  std::unordered_set<TaskId> tasks;  // unordered: many names differ only at their ends, so ordered comparison is slow
  std::vector<PartSums> parts;       // in order of the spec's parts
  std::vector<WideSum> scalars;

  bool empty() const { return tasks.empty(); }
};

// An empty partial sum of `base_version`: all sums exist and are 0.
Partial EmptyPartial(const AggregationSpec& spec, int64_t base_version);
// An empty partial sum with its sums in `files`; null: in memory. Errors as SumFiles::Take.
StatusOr<Partial> EmptyPartial(const AggregationSpec& spec, int64_t base_version, SumFiles* files);

// Passes the bytes to `write` in pieces that are valid during the call, without copying sums. `partial` is of `spec`.
// Errors are those of `write`; INTERNAL: an update cannot be read from disk.
Status WritePartial(const AggregationSpec& spec, const Partial& partial,
                    const std::function<Status(std::span<const std::byte>)>& write);

// Parses a partial sum from pieces of any size, checks each block, and allocates no more than the spec requires. The
// sums may still be impossible, which Aggregation::Check detects.
class PartialReader {
 public:
  // `spec` is valid. It and `files`, which hold the sums, must outlive this; `files` null: sums are in memory.
  explicit PartialReader(const AggregationSpec& spec, SumFiles* files = nullptr);
  ~PartialReader();
  // DATA_LOSS: not a partial sum, damaged, or followed by more bytes. INVALID_ARGUMENT: of another spec, or more tasks
  // than a version takes. RESOURCE_EXHAUSTED: no room on disk for updates or sums. After an error, do not call it
  // again.
  Status Append(std::span<const std::byte> bytes);
  // DATA_LOSS: the bytes ended early.
  StatusOr<Partial> Finish() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rivulet
