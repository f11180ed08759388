#include "federated/records/proof.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/json.h"
#include "engine/io/safetensors.h"
#include "federated/records/merkle_tree.h"
#include "federated/weights/file_digest.h"

namespace rivulet::records {
namespace {

// A file's lines, each ended by a line feed.
StatusOr<std::vector<std::string_view>> LinesOf(std::string_view text, std::string_view name) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return DataLoss("{}: its last line has no end; the file was cut off", name);
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

class ProofCheck {
 public:
  ProofCheck(FileSystem& fs, const std::string& folder, const Certificate* authority)
      : fs_(fs), folder_(folder), authority_(authority) {}

  StatusOr<ProofReport> Check(std::string_view head) {
    RIVULET_RETURN_IF_ERROR(CheckRecords());
    report_.run = chain_.last().run;
    report_.newest = chain_.last().version;
    report_.head = chain_.head().Hex();
    if (!head.empty() && head != report_.head) {
      return DataLoss("{}: the newest record has the digest {}, and {} was expected", kProofRecords, report_.head,
                      head);
    }
    if (head.empty()) {
      report_.unchecked.push_back(
          "without a head that somebody has kept, a chain that was cut at its end looks like a whole one");
    }
    if (report_.signatures == 0) {
      report_.unchecked.push_back("the records are not signed: whoever made the folder can make other ones");
    } else if (authority_ == nullptr) {
      report_.unchecked.push_back("no authority was given that says whose the certificates of the signatures are");
    }
    RIVULET_RETURN_IF_ERROR(CheckUpdates());
    RIVULET_RETURN_IF_ERROR(CheckPlan());
    RIVULET_RETURN_IF_ERROR(CheckModels());
    return report_;
  }

 private:
  std::string PathOf(std::string_view name) const { return JoinPath(folder_, std::string(name)); }

  Status CheckRecords() {
    if (!fs_.Exists(PathOf(kProofRecords))) {
      return NotFound("'{}' holds no proof: it has no {}", folder_, kProofRecords);
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string text, fs_.ReadAll(PathOf(kProofRecords)));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, LinesOf(text, kProofRecords));
    if (lines.empty()) return DataLoss("{}: it has no record", kProofRecords);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (const Status status = CheckRecord(lines[i]); !status.ok()) {
        return DataLoss("{}:{}: {}", kProofRecords, i + 1, Message(status));
      }
    }
    return absl::OkStatus();
  }

  Status CheckRecord(std::string_view line) {
    RIVULET_ASSIGN_OR_RETURN(const SignedRecord record, ReadSignedRecord(line));
    RIVULET_RETURN_IF_ERROR(chain_.Add(record.record, record.digest));
    if (!record.signature.empty()) {
      if (!IsSignedByItsCertificate(record)) {
        return DataLoss("the record of version {} was changed after it was signed, or signed by another key",
                        record.record.version);
      }
      RIVULET_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(record.certificate, "its certificate"));
      report_.signer = certificate.name ? certificate.name->ToString() : certificate.subject;
      ++report_.signatures;
    } else if (report_.signatures > 0) {
      return DataLoss("the record of version {} has no signature, and those before have", record.record.version);
    }
    if (authority_ != nullptr) RIVULET_RETURN_IF_ERROR(CheckSigned(record, *authority_));
    records_[record.record.version] = {record.record, record.digest};
    ++report_.records;
    return absl::OkStatus();
  }

  Status CheckUpdates() {
    std::string text;
    if (fs_.Exists(PathOf(kProofUpdates))) {
      RIVULET_ASSIGN_OR_RETURN(text, fs_.ReadAll(PathOf(kProofUpdates)));
    }
    RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, LinesOf(text, kProofUpdates));
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto check = [&]() -> Status {
        RIVULET_ASSIGN_OR_RETURN(VersionLeaves leaves, ReadVersionLeaves(lines[i]));
        const auto found = records_.find(leaves.version);
        if (found == records_.end()) return DataLoss("there is no record of version {}", leaves.version);
        const VersionRecord& record = found->second.first;
        if (std::ssize(leaves.leaves) != record.updates) {
          return DataLoss("version {} has {} leaves, and {} were expected", leaves.version, leaves.leaves.size(),
                          record.updates);
        }
        const Digest root = MerkleTree(std::move(leaves.leaves)).root();
        if (root != record.updates_root) {
          return DataLoss("the leaves of version {} have the root {}, and {} was expected", leaves.version, root.Hex(),
                          record.updates_root.Hex());
        }
        return absl::OkStatus();
      };
      if (const Status status = check(); !status.ok()) {
        return DataLoss("{}:{}: {}", kProofUpdates, i + 1, Message(status));
      }
      ++report_.versions_with_updates;
    }
    if (report_.versions_with_updates + 1 < report_.records) {
      report_.unchecked.push_back(fmt::format("{} of {} versions are without the leaves of their updates",
                                              report_.records - 1 - report_.versions_with_updates,
                                              report_.records - 1));
    }
    return absl::OkStatus();
  }

  Status CheckPlan() {
    if (!fs_.Exists(PathOf(kProofPlan))) {
      report_.unchecked.push_back("the plan is not in the folder");
      return absl::OkStatus();
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string plan, fs_.ReadAll(PathOf(kProofPlan)));
    if (const Digest found = Sha256Of(plan); found != chain_.last().plan) {
      return DataLoss("{}: its digest is {}, and the record of version {} expects {}", kProofPlan, found.Hex(),
                      chain_.last().version, chain_.last().plan.Hex());
    }
    return absl::OkStatus();
  }

  Status CheckModels() {
    std::vector<std::string> names;
    if (fs_.Exists(PathOf(kProofModels))) {
      RIVULET_ASSIGN_OR_RETURN(names, fs_.List(PathOf(kProofModels)));
    }
    std::ranges::sort(names);
    for (const std::string& name : names) {
      const std::string shown = JoinPath(kProofModels, name);
      if (const Status status = CheckModel(PathOf(shown)); !status.ok()) {
        return DataLoss("{}: {}", shown, Message(status));
      }
      ++report_.models;
    }
    if (report_.models < report_.records) {
      report_.unchecked.push_back(
          fmt::format("{} of {} models are not in the folder", report_.records - report_.models, report_.records));
    }
    return absl::OkStatus();
  }

  // By the record that it names: its name alone says nothing.
  Status CheckModel(const std::string& path) {
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs_.ReadAll(path));
    RIVULET_ASSIGN_OR_RETURN(const SafetensorsContent file, ParseSafetensors(bytes));
    const auto stated = file.metadata.find(kRecordKey);
    const auto record = std::ranges::find_if(records_, [&](const auto& entry) {
      return stated != file.metadata.end() && entry.second.second.Hex() == stated->second;
    });
    if (record == records_.end()) {
      return DataLoss("its {} is {}, which is the digest of no record", kRecordKey,
                      stated == file.metadata.end() ? "missing" : stated->second);
    }
    RIVULET_ASSIGN_OR_RETURN(const Digest digest, ModelDigestOf(file));
    if (digest != record->second.first.model) {
      return DataLoss("its model has the digest {}, and the record of version {} expects {}", digest.Hex(),
                      record->first, record->second.first.model.Hex());
    }
    return absl::OkStatus();
  }

  FileSystem& fs_;
  const std::string& folder_;
  const Certificate* const authority_;
  ProofReport report_;
  RecordChain chain_;
  std::map<int64_t, std::pair<VersionRecord, Digest>> records_;  // by version
};

}  // namespace

std::string Write(const VersionLeaves& leaves) {
  Json list = Json::Array();
  for (const Digest& leaf : leaves.leaves) list.Append(leaf.Hex());
  const Json line = {{"version", leaves.version}, {"leaves", std::move(list)}};
  return line.Dump();
}

StatusOr<VersionLeaves> ReadVersionLeaves(std::string_view line) {
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(line));
  VersionLeaves leaves = {.version = json.At("version").integer(), .leaves = {}};
  for (const Json& leaf : json.At("leaves").elements()) {
    RIVULET_ASSIGN_OR_RETURN(leaves.leaves.emplace_back(), Digest::FromHex(leaf.text()));
  }
  if (Write(leaves) != line) return InvalidArgument("the line is none of a version and its leaves");
  return leaves;
}

StatusOr<ProofReport> CheckProof(FileSystem& fs, const std::string& folder, const Certificate* authority,
                                 std::string_view head) {
  return ProofCheck(fs, folder, authority).Check(head);
}

}  // namespace rivulet::records
