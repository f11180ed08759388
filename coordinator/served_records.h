// Records of a run as its clients fetch them: the newest durable one, and receipts for the updates of the newest
// versions. Thread-safe, with a separate lock under which nothing else is called. 32 bytes a version, and 64 a task of
// the versions that receipts are given for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/commit/version_writer.h"
#include "engine/base/mutex.h"
#include "federated/records/receipt.h"

namespace rivulet {

class ServedRecords {
 public:
  // `rows`: the stored records, in order.
  explicit ServedRecords(std::span<const RecordRow> rows);
  // A version whose rows are durable. One without a record, as of a chain that is not kept, is passed over.
  void Written(const PendingAttempt& pending);

  // records::Write of a Head for a reader that was shown the record `known`; zeros: none. FAILED_PRECONDITION: the run
  // has no such record. NOT_FOUND: it has none at all.
  StatusOr<std::string> HeadAfter(const Digest& known) const;
  // records::Write of a Receipt; `task`: the SHA-256 of its name. NOT_FOUND: not of an update with an identity in one
  // of the newest versions.
  StatusOr<std::string> ReceiptOf(const Digest& task) const;

 private:
  struct Version {
    records::SignedRecord record;
    struct Update {
      TaskId task;
      Digest identity;
    };
    std::vector<Update> updates;       // in the order of their tasks' bytes
    std::map<Digest, int64_t> places;  // by the digest of the task's name
    records::MerkleTree tree{std::vector<Digest>()};
  };
  void Add(const RecordRow& row) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Digest> leaves_ GUARDED_BY(mutex_);       // of the tree over the records
  std::map<Digest, int64_t> index_ GUARDED_BY(mutex_);  // of each, by its digest
  std::shared_ptr<const records::SignedRecord> newest_ GUARDED_BY(mutex_);
  mutable std::shared_ptr<const records::MerkleTree> before_newest_ GUARDED_BY(mutex_);  // null: not asked for yet
  std::deque<std::shared_ptr<const Version>> versions_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
