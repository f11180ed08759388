// A proof: the records of a run in a folder, to be checked without its history and its clients' names.
//
//   records.jsonl    a line a version, from the first: the envelope of its record (signed_record.h)
//   updates.jsonl    a line a version whose updates have identities: {"version":1,"leaves":[HEX,…]}, the leaves of the
//                    tree over its updates in their order; a leaf tells neither the client nor the update
//   plan             the plan's bytes
//   models/NAME      model files that the run keeps, as they are
//
// The plan and the models may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/certificate.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/records/signed_record.h"

namespace rivulet::records {

inline constexpr char kProofRecords[] = "records.jsonl", kProofUpdates[] = "updates.jsonl", kProofPlan[] = "plan",
                      kProofModels[] = "models";

// A line of updates.jsonl.
struct VersionLeaves {
  int64_t version = 0;
  std::vector<Digest> leaves;
};
std::string Write(const VersionLeaves& leaves);
// INVALID_ARGUMENT: a line that Write does not make.
StatusOr<VersionLeaves> ReadVersionLeaves(std::string_view line);

struct ProofReport {
  std::string run;
  int64_t records = 0, signatures = 0, versions_with_updates = 0, models = 0;  // that are as they should be
  int64_t newest = 0;                                                          // version of the newest record
  std::string head, signer;                                                    // as in RecordsReport (inspect)
  std::vector<std::string> unchecked;                                          // a sentence each
};

// Checks the proof in `folder`. `authority`: that must have issued each signature's certificate; null: signatures are
// checked against the certificates beside them. `head`: the digest of the newest record, as somebody has kept it; "":
// nobody has. DATA_LOSS names the first break: the file, the version, the field, what was found and expected.
// NOT_FOUND: no records are there.
StatusOr<ProofReport> CheckProof(FileSystem& fs, const std::string& folder, const Certificate* authority,
                                 std::string_view head);

}  // namespace rivulet::records
