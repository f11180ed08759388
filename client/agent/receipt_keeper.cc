#include "client/agent/receipt_keeper.h"

#include <algorithm>
#include <utility>

#include "engine/io/atomic_file.h"
#include "federated/transport/record_blobs.h"

namespace rivulet {
namespace {

// An envelope is some kilobytes, and a path 65 digits for each doubling of a cohort or of a run's length.
constexpr int64_t kMostRecordBytes = 1 << 20;

}  // namespace

std::string ReceiptKeeper::PathOf(std::string_view kind, std::string_view name, std::string_view ending) const {
  return JoinPath(options_.folder, fmt::format("{}-{}{}", kind, Sha256Of(name).Hex().substr(0, 16), ending));
}

void ReceiptKeeper::Note(const std::string& sentence) const {
  if (options_.note) options_.note(sentence);
}

std::optional<records::SignedRecord> ReceiptKeeper::Known(const std::string& run_id) const {
  const std::string path = PathOf("head", run_id, ".json");
  if (!fs_.Exists(path)) return std::nullopt;
  const StatusOr<std::string> text = fs_.ReadAll(path);
  if (!text.ok()) return std::nullopt;
  StatusOr<records::Head> head = records::ReadHead(*text);
  if (!head.ok() || head->record.record.run != run_id) return std::nullopt;
  return std::move(head->record);
}

Status ReceiptKeeper::CheckSignature(const records::SignedRecord& record) const {
  const Certificate* const authority = options_.authority == nullptr ? nullptr : options_.authority();
  if (authority == nullptr) return absl::OkStatus();
  return records::CheckSigned(record, *authority);
}

// What the coordinator has shown once it cannot take back: a client that was shown a record trains for no other history
// of that run.
Status ReceiptKeeper::Admit(const std::string& run_id, const Fetch& fetch) {
  const std::optional<records::SignedRecord> known = Known(run_id);
  const StatusOr<std::string> text = fetch(HeadBlobAfter(known ? known->digest : Digest()), kMostRecordBytes);
  const bool none =
      absl::IsNotFound(text.status()) || absl::IsUnimplemented(text.status()) || absl::IsInvalidArgument(text.status());
  if (none && !known) {
    if (std::exchange(without_, run_id) != run_id) {
      Note(fmt::format("no receipts of run {}: its coordinator, or an aggregator before it, shows no records", run_id));
    }
    return absl::OkStatus();
  }
  if (none || absl::IsFailedPrecondition(text.status())) {
    return DataLoss(
        "the coordinator no longer shows the record {} of version {} of run '{}', which it has shown before: "
        "the run's history was replaced ({})",
        known ? known->digest.Hex() : "", known ? known->record.version : 0, run_id, Message(text.status()));
  }
  RIVULET_RETURN_IF_ERROR(text.status());
  const StatusOr<records::Head> head = records::ReadHead(*text);
  if (!head.ok()) return DataLoss("the coordinator shows a record that is none: {}", Message(head.status()));
  if (head->record.record.run != run_id) {
    return DataLoss("the coordinator shows a record of run '{}' for a task of run '{}'", head->record.record.run,
                    run_id);
  }
  if (const Status good = CheckSignature(head->record); !good.ok()) return DataLoss("{}", Message(good));
  if (known) RIVULET_RETURN_IF_ERROR(records::CheckExtends(*head, *known));
  if (known && known->digest == head->record.digest) return absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(options_.folder));
  return WriteFileAtomically(fs_, PathOf("head", run_id, ".json"), *text);
}

void ReceiptKeeper::Sending(const TaskId& task, const Digest& identity) {
  Status status = fs_.CreateFolders(options_.folder);
  if (status.ok()) status = WriteFileAtomically(fs_, PathOf("sent", task, ""), identity.Hex());
  if (!status.ok()) return Note(fmt::format("no receipt for task {}: {}", task, Message(status)));
  if (std::ranges::find(sent_, task) == sent_.end()) sent_.push_back(task);
}

void ReceiptKeeper::Collect(const TaskId& task, const Fetch& fetch) {
  const std::string sent = PathOf("sent", task, "");
  if (!fs_.Exists(sent)) return;  // collected, or never sent from here
  const auto collect = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const std::string hex, fs_.ReadAll(sent));
    RIVULET_ASSIGN_OR_RETURN(const Digest identity, Digest::FromHex(hex));
    RIVULET_ASSIGN_OR_RETURN(const std::string text, fetch(ReceiptBlobOf(task), kMostRecordBytes));
    RIVULET_ASSIGN_OR_RETURN(const records::Receipt receipt, records::ReadReceipt(text));
    if (receipt.task != task || receipt.identity != identity) {
      return DataLoss("the coordinator's receipt is of another update than was sent");
    }
    RIVULET_RETURN_IF_ERROR(records::CheckReceipt(receipt));
    RIVULET_RETURN_IF_ERROR(CheckSignature(receipt.record));
    return WriteFileAtomically(fs_, PathOf("receipt", task, ".json"), text);
  };
  if (const Status status = collect(); !status.ok()) {
    // Not written yet, or not reached: asked for again before the next task.
    if (absl::IsNotFound(status) || absl::IsUnavailable(status) || absl::IsCancelled(status)) return;
    Note(fmt::format("no receipt for task {}: {}", task, Message(status)));
  }
  fs_.Remove(sent).IgnoreError();
  std::erase(sent_, task);
}

}  // namespace rivulet
