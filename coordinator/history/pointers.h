// Pointers of a history: labels of served names and their target versions. Rows are only added, one small transaction
// each; the newest row of a name and label counts (docs/reference/history.md, "pointers").
//
// A separate connection beside History's: it holds no transaction open between two calls. Not thread-safe. Errors as in
// database.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

struct PointerRow {
  std::string name, label;
  std::string run_id;
  int64_t round = 0;
  std::string digest, plan_digest;  // hexadecimal digits
  int64_t version = 0;              // the name's own counter: equal for equal run, round and digest
  double share = 0;                 // percent of the requests without a label
  int64_t at = 0;                   // milliseconds since 1970 UTC
  std::string author, note;
  bool rolled_back = false;  // a step back to the previous target
};

class Pointers {
 public:
  // Migrates an older history, and creates none. Errors as History::Open.
  static StatusOr<std::unique_ptr<Pointers>> Open(const std::string& path, Database::Access access);

  // Changes after each commit by another process. Costs one read of the file's header.
  StatusOr<int64_t> DataVersion();
  StatusOr<std::vector<PointerRow>> Rows();  // in the order of writing
  // Writes `row` with a version, which is returned: that of an earlier row of the same name, run, round and digest,
  // else the name's next. After OK it survives a crash. INVALID_ARGUMENT: a digest is malformed.
  StatusOr<int64_t> Add(const PointerRow& row);

 private:
  explicit Pointers(std::unique_ptr<Database> db) : db_(std::move(db)) {}
  const std::unique_ptr<Database> db_;
};

}  // namespace rivulet
