#include "coordinator/commit/record_maker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "certificates/key.h"
#include "certificates/signature.h"
#include "federated/records/merkle_tree.h"
#include "federated/records/signed_record.h"

namespace rivulet {
namespace {

std::string HexOf(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

}  // namespace

FoldedUpdates UpdatesOf(const ClosedAttempt& attempt) {
  std::vector<const ClosedAttempt::ClosedTask*> folded;
  folded.reserve(attempt.tasks.size());
  for (const ClosedAttempt::ClosedTask& task : attempt.tasks) {
    if (task.lease.state == Lease::State::kFolded) folded.push_back(&task);
  }
  std::ranges::sort(folded, {}, [](const auto* task) -> const TaskId& { return task->lease.task; });
  std::vector<Digest> leaves;
  leaves.reserve(folded.size());
  bool all = !folded.empty();
  for (const auto* task : folded) {
    leaves.push_back(records::LeafOf(task->lease.task, task->facts.update_digest));
    all = all && task->facts.update_digest;
  }
  return {std::ssize(leaves), records::MerkleTree(std::move(leaves)).root(), all};
}

Status RecordMaker::Resume(std::span<const RecordRow> rows) {
  records::RecordChain chain;
  const auto add = [&](const RecordRow& row) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const records::VersionRecord record, records::ReadVersionRecord(row.record));
    if (record.run != run_.run_id || record.version != row.round) {
      return DataLoss("the row of version {} has the record of version {} of run '{}'", row.round, record.version,
                      record.run);
    }
    return chain.Add(record, records::DigestOf(row.record));
  };
  for (const RecordRow& row : rows) {
    if (const Status status = add(row); !status.ok()) {
      return DataLoss(
          "the records of run '{}' were changed, and no record can follow them: {}; restore the history "
          "from a copy ('rivulet runs verify' says more)",
          run_.run_id, Message(status));
    }
  }
  chain_ = std::move(chain);
  return absl::OkStatus();
}

StatusOr<EVP_PKEY*> RecordMaker::Key() {
  const std::shared_ptr<const NodeIdentity> identity = identity_ == nullptr ? nullptr : identity_();
  if (identity == nullptr) return nullptr;
  if (identity != signer_) {
    RIVULET_ASSIGN_OR_RETURN(key_, ReadKey(identity->key_pem, "the coordinator's key"));
    RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                             ReadCertificate(identity->certificate_pem, "the coordinator's certificate"));
    certificate_ = certificate.Pem();  // its file may have other text around it
    signer_ = identity;
  }
  return CheckSigningKey(key_.get(), run_.run_id).ok() ? key_.get() : nullptr;
}

std::string RecordMaker::WhyUnsigned() {
  const StatusOr<EVP_PKEY*> key = Key();
  if (!key.ok()) return std::string(Message(key.status()));
  if (*key != nullptr || key_ == nullptr) return "";
  return std::string(Message(CheckSigningKey(key_.get(), "coordinator")));
}

StatusOr<RecordRow> RecordMaker::Make(const VersionFacts& facts, records::RecordChain& chain) {
  records::VersionRecord record = {.run = run_.run_id,
                                   .version = facts.version,
                                   .made_ms = facts.made_ms,
                                   .program = std::string(run_.program),
                                   .plan = run_.plan,
                                   .configuration = run_.configuration,
                                   .model = facts.model,
                                   .updates = facts.updates.count,
                                   .updates_root = facts.updates.root,
                                   .has_receipts = facts.updates.have_identities,
                                   .privacy = facts.privacy};
  chain.Continue(record);
  if (record.version != facts.version) {
    return FailedPrecondition("no record of version {} of run '{}' can follow that of version {}", facts.version,
                              run_.run_id, chain.last().version);
  }
  RecordRow row = {.run_id = run_.run_id, .round = facts.version, .record = records::Write(record)};
  const Digest digest = records::DigestOf(row.record);
  row.digest = digest.Hex();
  RIVULET_ASSIGN_OR_RETURN(EVP_PKEY* const key, Key());
  if (key != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const std::string signature, records::SignatureOf(row.record, key));
    row.signature = HexOf(signature);
    row.certificate = certificate_;
  }
  RIVULET_RETURN_IF_ERROR(chain.Add(record, digest));
  return row;
}

}  // namespace rivulet
