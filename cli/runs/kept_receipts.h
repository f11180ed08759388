// Receipts and heads in a folder of `rivulet client --receipts`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "certificates/certificate.h"
#include "engine/base/status.h"
#include "federated/records/receipt.h"

namespace rivulet {

struct KeptReceipts {
  int64_t receipts = 0;
  std::vector<records::SignedRecord> records;  // of receipts and heads
  std::vector<std::string> files;              // of each
};

// Adds those of `folder`, each checked; `authority`: that must have issued the certificates, null: none is asked.
// DATA_LOSS names the file that is not as it should be. NOT_FOUND: no such folder.
Status ReadReceipts(const std::string& folder, const Certificate* authority, KeptReceipts& kept);

}  // namespace rivulet
