#include "coordinator/served_records.h"

#include <algorithm>
#include <utility>

namespace rivulet {
namespace {

// Clients hear of their outcome with their next poll; one that is away for longer asks its operator.
constexpr size_t kVersionsWithReceipts = 8;

std::string FromDigits(std::string_view hex) {
  std::string bytes;
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(value(hex[i]) * 16 + value(hex[i + 1]));
  return bytes;
}

}  // namespace

ServedRecords::ServedRecords(std::span<const RecordRow> rows) {
  MutexLock lock(mutex_);
  for (const RecordRow& row : rows) Add(row);
}

// Rows of this process or of those before it, which were checked when the run was opened.
void ServedRecords::Add(const RecordRow& row) {
  StatusOr<records::SignedRecord> record =
      records::SignedRecordOf(row.record, FromDigits(row.signature), row.certificate);
  if (!record.ok()) return;
  index_[record->digest] = std::ssize(leaves_);
  leaves_.push_back(records::LeafOf(record->digest));
  newest_ = std::make_shared<const records::SignedRecord>(*std::move(record));
  before_newest_ = nullptr;
}

void ServedRecords::Written(const PendingAttempt& pending) {
  if (!pending.record) return;
  auto version = std::make_shared<Version>();
  for (const auto& [lease, facts] : pending.attempt.tasks) {
    if (lease.state != Lease::State::kFolded || !pending.updates.have_identities) continue;
    version->updates.push_back({lease.task, *facts.update_digest});
  }
  std::ranges::sort(version->updates, {}, &Version::Update::task);
  std::vector<Digest> leaves;
  for (const auto& [task, identity] : version->updates) {
    version->places[Sha256Of(task)] = std::ssize(leaves);
    leaves.push_back(records::LeafOf(task, identity));
  }
  version->tree = records::MerkleTree(std::move(leaves));
  MutexLock lock(mutex_);
  Add(*pending.record);
  version->record = *newest_;
  versions_.push_back(std::move(version));
  if (versions_.size() > kVersionsWithReceipts) versions_.pop_front();
}

StatusOr<std::string> ServedRecords::HeadAfter(const Digest& known) const {
  records::Head head;
  {
    MutexLock lock(mutex_);
    if (newest_ == nullptr) return NotFound("this run has no records");
    head.record = *newest_;
    if (known != Digest()) {
      const auto found = index_.find(known);
      if (found == index_.end()) {
        return FailedPrecondition("run '{}' has no record {}, which this client was shown before", newest_->record.run,
                                  known.Hex());
      }
      if (found->second + 1 < std::ssize(leaves_)) {
        if (before_newest_ == nullptr) {
          before_newest_ = std::make_shared<const records::MerkleTree>(
              std::vector<Digest>(leaves_.begin(), std::prev(leaves_.end())));
        }
        head.path = before_newest_->PathOf(found->second);
      }
    }
  }
  return records::Write(head);
}

StatusOr<std::string> ServedRecords::ReceiptOf(const Digest& task) const {
  std::shared_ptr<const Version> version;
  {
    MutexLock lock(mutex_);
    for (const auto& one : versions_)
      if (one->places.contains(task)) version = one;
  }
  if (version == nullptr) {
    return NotFound("no update of that task is in one of the newest {} versions", kVersionsWithReceipts);
  }
  const int64_t place = version->places.at(task);
  const auto& [id, identity] = version->updates[static_cast<size_t>(place)];
  return records::Write(records::Receipt{id, identity, version->tree.PathOf(place), version->record});
}

}  // namespace rivulet
