#include "federated/records/receipt.h"

#include <map>
#include <utility>

#include "engine/base/json.h"

namespace rivulet::records {
namespace {

Json PathJson(const MerklePath& path) {
  Json siblings = Json::Array();
  for (const Digest& sibling : path.siblings) siblings.Append(sibling.Hex());
  return {{"index", path.index}, {"size", path.size}, {"siblings", std::move(siblings)}};
}

StatusOr<MerklePath> ReadPath(const Json& json) {
  MerklePath path = {.index = json.At("index").integer(), .size = json.At("size").integer(), .siblings = {}};
  for (const Json& sibling : json.At("siblings").elements()) {
    RIVULET_ASSIGN_OR_RETURN(path.siblings.emplace_back(), Digest::FromHex(sibling.text()));
  }
  return path;
}

Status NotAsWritten(const char* what) { return InvalidArgument("the text is no {}", what); }

}  // namespace

StatusOr<std::string> Write(const Receipt& receipt) {
  RIVULET_ASSIGN_OR_RETURN(const std::string envelope, EnvelopeOf(receipt.record));
  const Json json = {{"task", receipt.task},
                     {"identity", receipt.identity.Hex()},
                     {"path", PathJson(receipt.path)},
                     {"record", envelope}};
  return json.Dump();
}

StatusOr<Receipt> ReadReceipt(std::string_view text) {
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  Receipt receipt = {.task = json.At("task").text()};
  RIVULET_ASSIGN_OR_RETURN(receipt.identity, Digest::FromHex(json.At("identity").text()));
  RIVULET_ASSIGN_OR_RETURN(receipt.path, ReadPath(json.At("path")));
  RIVULET_ASSIGN_OR_RETURN(receipt.record, ReadSignedRecord(json.At("record").text()));
  RIVULET_ASSIGN_OR_RETURN(const std::string again, Write(receipt));
  if (again != text) return NotAsWritten("receipt");
  return receipt;
}

Status CheckReceipt(const Receipt& receipt) {
  const VersionRecord& record = receipt.record.record;
  const StatusOr<Digest> root = RootOf(LeafOf(receipt.task, receipt.identity), receipt.path);
  if (!root.ok() || *root != record.updates_root || receipt.path.size != record.updates) {
    return DataLoss("the update of task '{}' is not among the {} of version {} of run '{}'", receipt.task,
                    record.updates, record.version, record.run);
  }
  return absl::OkStatus();
}

StatusOr<std::string> Write(const Head& head) {
  RIVULET_ASSIGN_OR_RETURN(const std::string envelope, EnvelopeOf(head.record));
  const Json json = {{"record", envelope}, {"path", head.path ? PathJson(*head.path) : Json(nullptr)}};
  return json.Dump();
}

StatusOr<Head> ReadHead(std::string_view text) {
  RIVULET_ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  Head head;
  RIVULET_ASSIGN_OR_RETURN(head.record, ReadSignedRecord(json.At("record").text()));
  if (!json.At("path").IsNull()) {
    RIVULET_ASSIGN_OR_RETURN(head.path, ReadPath(json.At("path")));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string again, Write(head));
  if (again != text) return NotAsWritten("newest record");
  return head;
}

Status CheckExtends(const Head& head, const SignedRecord& known) {
  const VersionRecord& record = head.record.record;
  if (record.run != known.record.run) {
    return DataLoss("the newest record is of run '{}', and that of run '{}' was known", record.run, known.record.run);
  }
  if (head.record.digest == known.digest) return absl::OkStatus();
  const auto refuse = [&] {
    return DataLoss(
        "the newest record of run '{}' is {} of version {}, and does not extend {} of version {}, which was "
        "shown before: the run's history was replaced",
        record.run, head.record.digest.Hex(), record.version, known.digest.Hex(), known.record.version);
  };
  if (!head.path || head.path->index != known.record.earlier || head.path->size != record.earlier) return refuse();
  const StatusOr<Digest> root = RootOf(LeafOf(known.digest), *head.path);
  return root.ok() && *root == record.earlier_root ? absl::OkStatus() : refuse();
}

std::optional<TwoHeads> FindTwoHeads(std::span<const SignedRecord> records) {
  std::map<std::pair<std::string, int64_t>, size_t> seen;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto [found, added] = seen.emplace(std::pair(records[i].record.run, records[i].record.version), i);
    if (added || records[found->second].digest == records[i].digest) continue;
    return TwoHeads{records[i].record.run, records[i].record.version, found->second, i};
  }
  return std::nullopt;
}

}  // namespace rivulet::records
