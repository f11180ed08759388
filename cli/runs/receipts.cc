// rivulet receipts: what clients have kept of the runs that they worked for, checked and compared.
#include <algorithm>

#include "certificates/certificate.h"
#include "cli/runs/commands.h"
#include "cli/runs/kept_receipts.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"

namespace rivulet {
namespace {

struct CheckReceiptsOptions {
  std::vector<std::string> folders;
  std::string authority;
  bool json = false;
};

Status CheckReceipts(const CheckReceiptsOptions& options) {
  std::optional<Certificate> authority;
  if (!options.authority.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::string pem, FileSystem::Default().ReadAll(options.authority));
    StatusOr<Certificate> certificate = ReadCertificate(pem, options.authority);
    if (!certificate.ok()) return AsUsageError(certificate.status());
    authority = *std::move(certificate);
  }
  KeptReceipts kept;
  for (const std::string& folder : options.folders) {
    RIVULET_RETURN_IF_ERROR(ReadReceipts(folder, authority ? &*authority : nullptr, kept));
  }
  if (kept.records.empty()) return NotFound("there is no receipt in {}", options.folders.front());
  if (const auto two = records::FindTwoHeads(kept.records)) {
    return DataLoss("two histories of run '{}' were shown: version {} has the record {} in {}, and {} in {}", two->run,
                    two->version, kept.records[two->first].digest.Hex(), kept.files[two->first],
                    kept.records[two->second].digest.Hex(), kept.files[two->second]);
  }
  if (options.json) {
    fmt::print("{}\n", Json{{"receipts", kept.receipts}, {"records", std::ssize(kept.records)}}.Dump());
  } else {
    fmt::print("{} receipt{} and {} records are as they should be, and none differ in a version\n", kept.receipts,
               kept.receipts == 1 ? "" : "s", kept.records.size());
    if (!authority) fmt::print("{:<13} no authority was given that says who signed the records\n", "not checked");
  }
  return absl::OkStatus();
}

const RegisterCommand kReceipts(41, [] {
  Command command{.name = "receipts",
                  .summary = "Check the receipts of clients.",
                  .example = "rivulet receipts check receipts --authority authority.crt"};
  auto options = std::make_shared<CheckReceiptsOptions>();
  Command check{.name = "check",
                .summary = "Check receipts, and find two histories of one run that were shown to clients.",
                .example = "rivulet receipts check ward-7/receipts ward-8/receipts"};
  check
      .Positional("FOLDER", &options->folders,
                  "folders of `rivulet client --receipts`, of one client or of several to be compared")
      .Option("--authority", "CERT", &options->authority,
              "refuse records that no coordinator of this authority has signed (its authority.crt)")
      .Flag("--json", &options->json, "print one JSON object");
  check.run = [options] { return CheckReceipts(*options); };
  command.subcommands = {std::move(check)};
  return command;
});

}  // namespace

Status ReadReceipts(const std::string& folder, const Certificate* authority, KeptReceipts& kept) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const bool head = name.starts_with("head-"), receipt = name.starts_with("receipt-");
    if (!name.ends_with(".json") || (!head && !receipt)) continue;
    const std::string path = JoinPath(folder, name);
    const auto read = [&]() -> StatusOr<records::SignedRecord> {
      RIVULET_ASSIGN_OR_RETURN(const std::string text, fs.ReadAll(path));
      if (head) {
        RIVULET_ASSIGN_OR_RETURN(records::Head shown, records::ReadHead(text));
        return std::move(shown.record);
      }
      RIVULET_ASSIGN_OR_RETURN(records::Receipt one, records::ReadReceipt(text));
      RIVULET_RETURN_IF_ERROR(records::CheckReceipt(one));
      ++kept.receipts;
      return std::move(one.record);
    };
    StatusOr<records::SignedRecord> record = read();
    if (record.ok() && authority != nullptr) {
      if (const Status good = records::CheckSigned(*record, *authority); !good.ok()) record = good;
    }
    if (!record.ok()) return DataLoss("{}: {}", path, Message(record.status()));
    kept.records.push_back(*std::move(record));
    kept.files.push_back(path);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
