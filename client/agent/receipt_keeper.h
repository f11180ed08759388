// Receipts of one client's updates, each the proof that an update is in a version. Beside them is the newest record of
// each run that the client was shown. They are files of a folder, and survive the client.
//
//   head-RUN.json       the newest record of a run (federated/records/receipt.h); RUN is 16 digits of its name's digest
//   sent-TASK           the identity of an update that was sent and is in no version yet
//   receipt-TASK.json   its receipt
//
// Used from one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/certificate.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/records/receipt.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

class ReceiptKeeper {
 public:
  using Fetch = std::function<StatusOr<std::string>(const BlobId& id, int64_t most_bytes)>;
  struct Options {
    std::string folder;
    // That must have issued the certificate of each record; null: records are taken as they are.
    std::function<const Certificate*()> authority;
    std::function<void(const std::string& sentence)> note;  // what a receipt could not be had for; may be null
  };
  ReceiptKeeper(FileSystem& fs, Options options) : fs_(fs), options_(std::move(options)) {}

  // Before a task of the run: fetches the newest record, and keeps it. DATA_LOSS: it does not extend the one that this
  // client was shown before, none is shown any more, or it is not signed as it has to be. OK also where no record was
  // ever shown, as by an earlier program or an aggregator.
  Status Admit(const std::string& run_id, const Fetch& fetch);
  // An update of the task is about to be sent.
  void Sending(const TaskId& task, const Digest& identity);
  // Fetches and checks the receipt of the task's update. One that is not there, as before the version is durable, is
  // asked for again with the next call.
  void Collect(const TaskId& task, const Fetch& fetch);
  // Tasks whose updates this process has sent and has no receipt of.
  std::vector<TaskId> sent() const { return sent_; }

 private:
  std::string PathOf(std::string_view kind, std::string_view name, std::string_view ending) const;
  std::optional<records::SignedRecord> Known(const std::string& run_id) const;
  Status CheckSignature(const records::SignedRecord& record) const;
  void Note(const std::string& sentence) const;

  FileSystem& fs_;
  const Options options_;
  std::vector<TaskId> sent_;
  std::string without_;  // run of which it was told that it has no records
};

}  // namespace rivulet
