// A partial sum of the updates of one base version, complete enough to continue elsewhere or later. Crash recovery,
// aggregators, worker threads and ranks all move and merge partial sums.
//
// As bytes, all little-endian:
//
//   "RVPART02"  u32 length, proto::PartialHeader, u32 CRC-32C of all before
//   for each part, in the spec's order, its section:
//     u32 length, name, u64 bytes, u32 CRC-32C of these three
//     its body in blocks of 1 MiB, the last what is left, each followed by its u32 CRC-32C
//
// A body is the part's sums (i64 or i32, wire order). A rule that needs all updates (updates_rule.h) has the updates
// instead, in order of their tasks: u32 index of the task in the header, i64 weight, values (f32, wire order).
//
// A part of two 64-bit sums, 1 and -1: 05 00 00 00 "delta" 10 00 00 00 00 00 00 00 CRC, 01 00 .. 00 ff ff .. ff CRC.
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
  int64_t offset = 0;  // in it, of the first value
};

struct PartSums {
  // Two's complement, wrap-around defined; one of the two, by the part's sum_bits.
  SumArray<int64_t> sums;
  SumArray<int32_t> sums32;
  int64_t weight_sum = 0;            // in units of 2^-weight_fraction_bits
  int64_t updates = 0;               // that had this part
  int64_t nonzeros = 0;              // values
  int64_t lost_nonzeros = 0;         // of them, those that rounding made zero
  std::vector<SpooledPart> spooled;  // instead of sums, of a rule that needs all updates
};

struct Partial {
  Digest spec;                       // AggregationSpec::digest
  int64_t base_version = 0;          // that all its tasks started from
  std::unordered_set<TaskId> tasks;  // their names are alike but for their ends: no order is kept of them
  std::vector<PartSums> parts;       // in order of the spec's
  std::vector<WideSum> scalars;

  bool empty() const { return tasks.empty(); }
};

// Nothing gathered from `base_version` yet: all sums are there, and 0.
Partial EmptyPartial(const AggregationSpec& spec, int64_t base_version);
// The same with sums in `files`; null: in memory. Errors as SumFiles::Take.
StatusOr<Partial> EmptyPartial(const AggregationSpec& spec, int64_t base_version, SumFiles* files);

// Gives the bytes in pieces that are valid during the call; no sum is copied. `partial` is of `spec`. Errors are those
// of `write`; INTERNAL: an update cannot be read from disk.
Status WritePartial(const AggregationSpec& spec, const Partial& partial,
                    const std::function<Status(std::span<const std::byte>)>& write);

// Takes the bytes as they come, in pieces of any size, checks each block, and allocates what the spec calls for and no
// more. What arrives whole may still be nonsense: Aggregation::Check tells.
class PartialReader {
 public:
  // `spec` is valid. It and `files`, where sums go, must outlive this; null: into memory.
  explicit PartialReader(const AggregationSpec& spec, SumFiles* files = nullptr);
  ~PartialReader();
  // DATA_LOSS: no partial, damaged, or more than one. INVALID_ARGUMENT: of another spec, or with more tasks than a
  // version takes. RESOURCE_EXHAUSTED: updates or sums do not find room on
  // disk. After an error nothing more is read.
  Status Append(std::span<const std::byte> bytes);
  // DATA_LOSS: it ended early.
  StatusOr<Partial> Finish() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rivulet
