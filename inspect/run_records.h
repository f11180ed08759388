// Check of a stored run against the records of its versions (federated/records). They must be one chain and signed, and
// the run's other rows and its model files must agree. docs/guide/verify.md lists the columns that this covers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "certificates/certificate.h"
#include "coordinator/history/history.h"
#include "engine/base/status.h"
#include "federated/records/signed_record.h"

namespace rivulet {

// The first place at which a run is not as its records state.
struct RecordBreak {
  int64_t version = 0;
  std::string place;  // view and column: "rounds.epsilon"
  std::string expected, found;
  std::string Sentence(const std::string& run_id) const;
};

struct RecordsReport {
  std::string run_id;
  int64_t records = 0, signatures = 0, files = 0;  // that are as they should be
  int64_t newest = -1;                             // version of the newest record; -1: there are none
  std::string head;                                // digest of the newest record
  std::string signer;                              // name in its certificate; "" without
  std::optional<RecordBreak> first_break;
  std::vector<std::string> unchecked;  // a sentence each
};

// Reads the history at `db` and the files beside it. `authority`: that must have issued every signature's certificate;
// null: each signature is checked against the certificate beside it, whoever issued that. An error only where the
// history cannot be read; a change of it is a break of the report.
StatusOr<RecordsReport> CheckRunRecords(const std::string& db, const std::string& run_id, const Certificate* authority);

// A sentence about a version's file with this metadata and the model `digest`: which run and version it says that it is
// of, and whether the record of that version in the history at `db` states this model. Not of a file without
// rivulet.record. A missing history is such a sentence too.
StatusOr<std::string> RecordStanding(const std::string& db, const std::map<std::string, std::string>& metadata,
                                     const Digest& digest);

// A stored record with its signature. INVALID_ARGUMENT as SignedRecordOf.
StatusOr<records::SignedRecord> SignedRecordOf(const RecordRow& row);

}  // namespace rivulet
