// Writer of a proof (federated/records/proof.h), by which a third party checks a run without its history.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

struct WrittenProof {
  int64_t records = 0, models = 0;
  std::string head;  // digest of the newest record
};

// Makes `folder`, which must not be there or be empty, of the stored run. FAILED_PRECONDITION: it has no records.
// DATA_LOSS: its rows are not as they state (run_records.h). Others as the file system says.
StatusOr<WrittenProof> WriteProof(const std::string& db, const std::string& run_id, const std::string& folder);

}  // namespace rivulet
