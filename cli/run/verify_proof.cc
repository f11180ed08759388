// rivulet-client verify: a proof that `rivulet runs export --proof` has written, checked without the run's history.
#include "certificates/certificate.h"
#include "cli/run/client_command.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "federated/records/proof.h"

namespace rivulet {
namespace {

struct VerifyProofOptions {
  std::string folder, authority, head;
  bool json = false;
};

Status VerifyProof(const VerifyProofOptions& options) {
  FileSystem& fs = FileSystem::Default();
  std::optional<Certificate> authority;
  if (!options.authority.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::string pem, fs.ReadAll(options.authority));
    StatusOr<Certificate> certificate = ReadCertificate(pem, options.authority);
    if (!certificate.ok()) return AsUsageError(certificate.status());
    authority = *std::move(certificate);
  }
  RIVULET_ASSIGN_OR_RETURN(const records::ProofReport report,
                           records::CheckProof(fs, options.folder, authority ? &*authority : nullptr, options.head));
  if (options.json) {
    const Json json = {{"run_id", report.run},
                       {"records", report.records},
                       {"signatures", report.signatures},
                       {"signer", report.signer.empty() ? Json(nullptr) : Json(report.signer)},
                       {"updates", report.versions_with_updates},
                       {"models", report.models},
                       {"head", report.head},
                       {"unchecked", report.unchecked}};
    fmt::print("{}\n", json.Dump());
    return absl::OkStatus();
  }
  fmt::print("run {}: {} records are one chain, up to version {}; {} signed{}, {} with their updates, {} model{}\n",
             report.run, report.records, report.newest, report.signatures,
             report.signer.empty() ? "" : fmt::format(" by {}", report.signer), report.versions_with_updates,
             report.models, report.models == 1 ? "" : "s");
  fmt::print("{:<13} {}\n", "head", report.head);
  for (const std::string& sentence : report.unchecked) fmt::print("{:<13} {}\n", "not checked", sentence);
  return absl::OkStatus();
}

}  // namespace

Command VerifyProofCommand() {
  auto options = std::make_shared<VerifyProofOptions>();
  Command command{.name = "verify",
                  .summary = "Check a run's proof: records, signatures, updates, plan and models.",
                  .example = "rivulet-client verify proof --authority authority.crt"};
  command.Positional("FOLDER", &options->folder, "the folder that `rivulet runs export --proof` has written")
      .Option("--authority", "CERT", &options->authority,
              "refuse records that no coordinator of this authority has signed (its authority.crt)")
      .Option("--head", "DIGEST", &options->head, "refuse a chain whose newest record has another digest than this")
      .Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return VerifyProof(*options); };
  return command;
}

}  // namespace rivulet
