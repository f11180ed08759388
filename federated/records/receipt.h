// A receipt: the proof that one client's update is in a version, and the newest record that the client was shown. The
// client keeps both. Two clients that compare them find a coordinator that shows them different runs.
//
//   receipt := {"task":TEXT,"identity":HEX,"path":{"index":N,"size":N,"siblings":[HEX,…]},"record":ENVELOPE}
//   head    := {"record":ENVELOPE,"path":null or {…}}        of the newest record; the path is that of an earlier one
//
// Each is one line of JSON with the members in this order; ENVELOPE is that of signed_record.h as text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/records/merkle_tree.h"
#include "federated/records/signed_record.h"
#include "federated/tasks/task.h"

namespace rivulet::records {

struct Receipt {
  TaskId task;
  Digest identity;  // of the update, as it was uploaded
  MerklePath path;  // in the tree over the version's updates
  SignedRecord record;
};
// INTERNAL: its record's certificate cannot be written, which a record that was read has not.
StatusOr<std::string> Write(const Receipt& receipt);
// INVALID_ARGUMENT: a text that Write does not make.
StatusOr<Receipt> ReadReceipt(std::string_view text);
// DATA_LOSS: the update is not among those of the record.
Status CheckReceipt(const Receipt& receipt);

// The newest record of a run, and the path by which an earlier one is in the tree over its records; nullopt: the reader
// knows none, or this one.
struct Head {
  SignedRecord record;
  std::optional<MerklePath> path;
};
StatusOr<std::string> Write(const Head& head);
StatusOr<Head> ReadHead(std::string_view text);
// Whether `head` is a later record of the chain of `known`, or that record again. DATA_LOSS says that it is not.
Status CheckExtends(const Head& head, const SignedRecord& known);

// The first two records of one version of a run that differ. Nothing: there are none.
struct TwoHeads {
  std::string run;
  int64_t version = 0;
  size_t first = 0, second = 0;  // places in `records`
};
std::optional<TwoHeads> FindTwoHeads(std::span<const SignedRecord> records);

}  // namespace rivulet::records
