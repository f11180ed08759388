#include "inspect/run_records.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "engine/io/safetensors.h"
#include "federated/records/merkle_tree.h"
#include "federated/scenario/scenario.h"
#include "federated/server_state/server_state.h"

namespace rivulet {
namespace {

using records::SignedRecord;
using records::VersionRecord;

std::string TextOf(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "null"; }

StatusOr<std::string> BytesOfDigits(std::string_view hex) {
  std::string bytes;
  if (hex.size() % 2 == 1) return InvalidArgument("an odd number of hexadecimal digits");
  for (size_t i = 0; i < hex.size(); i += 2) {
    const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    const int high = value(hex[i]), low = value(hex[i + 1]);
    if (high < 0 || low < 0) return InvalidArgument("'{}' is no hexadecimal text", hex.substr(0, 80));
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

// What a run's rows and files are compared with, one version after the other. Each step gives the first break.
class RecordsOfRun {
 public:
  using Found = StatusOr<std::optional<RecordBreak>>;

  RecordsOfRun(History& history, std::string run_id, const Certificate* authority)
      : history_(history), authority_(authority) {
    report_.run_id = std::move(run_id);
  }

  StatusOr<RecordsReport> Check() {
    // Rows of a run that is going on come while this reads: rounds first, since a record comes with each.
    RIVULET_ASSIGN_OR_RETURN(rounds_, history_.Rounds(report_.run_id));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history_.ResolveRun(report_.run_id));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<RecordRow> rows, history_.Records(report_.run_id));
    if (rows.empty()) {
      report_.unchecked.push_back(
          "the run has no records: it was made by an earlier program, or they were deleted, which only somebody who "
          "has "
          "kept a record or a receipt can tell");
      return report_;
    }
    RIVULET_ASSIGN_OR_RETURN(report_.first_break, FirstBreak(run, rows));
    return report_;
  }

 private:
  Found FirstBreak(const RunRow& run, const std::vector<RecordRow>& rows) {
    for (const RecordRow& row : rows) {
      if (auto broken = BreakOfRecord(row)) return broken;
      ++report_.records;
    }
    const VersionRecord& last = chain_.last();
    report_.newest = last.version;
    report_.head = chain_.head().Hex();
    if (report_.signatures == 0) {
      report_.unchecked.push_back(
          "the records are not signed, as those of simulations and of coordinators without a certificate: whoever "
          "changes the history can make other ones");
    } else if (authority_ == nullptr) {
      report_.unchecked.push_back(
          "the signatures are by the certificates beside them, and no authority was given that says whose these are "
          "(--authority)");
    }
    if (first_ > 0) {
      report_.unchecked.push_back(
          fmt::format("versions before {} have no records: an earlier program made them", first_));
    }
    report_.unchecked.push_back(
        "without a receipt or a head that somebody has kept, a chain that was cut at its end looks like a whole one");
    RIVULET_ASSIGN_OR_RETURN(auto found, BreakOfRun(run));
    if (found) return found;
    for (const VersionRecord& record : records_) {
      RIVULET_ASSIGN_OR_RETURN(found, BreakOfRows(record));
      if (found) return found;
    }
    RIVULET_ASSIGN_OR_RETURN(found, BreakOfOtherTasks());
    if (found) return found;
    return BreakOfFiles(run);
  }

  // The row itself, its place in the chain, and its signature.
  std::optional<RecordBreak> BreakOfRecord(const RecordRow& row) {
    const auto broken = [&](std::string_view column, std::string expected, std::string found) {
      return RecordBreak{row.round, fmt::format("records.{}", column), std::move(expected), std::move(found)};
    };
    const StatusOr<VersionRecord> record = records::ReadVersionRecord(row.record);
    if (!record.ok()) return broken("record", "the record of a version", std::string(Message(record.status())));
    const Digest digest = records::DigestOf(row.record);
    if (digest.Hex() != row.digest) return broken("digest", digest.Hex(), row.digest);
    if (record->version != row.round) {
      return broken("round", fmt::format("{}", record->version), fmt::format("{}", row.round));
    }
    if (record->run != row.run_id) return broken("run_id", record->run, row.run_id);
    if (const auto at = chain_.BreakOf(*record)) {
      return broken(fmt::format("record \"{}\"", at->field), at->expected, at->found);
    }
    if (const auto unsigned_row = BreakOfSignature(row)) return unsigned_row;
    if (chain_.empty()) first_ = record->version;
    (void)chain_.Add(*record, digest);
    records_.push_back(*record);
    digests_[record->version] = row.digest;
    return std::nullopt;
  }

  std::optional<RecordBreak> BreakOfSignature(const RecordRow& row) {
    const auto broken = [&](const char* column, std::string expected, std::string found) {
      return RecordBreak{row.round, fmt::format("records.{}", column), std::move(expected), std::move(found)};
    };
    if (row.signature.empty() && row.certificate.empty()) {
      if (report_.signatures == 0 && authority_ == nullptr) return std::nullopt;
      return broken("signature", "a signature", "none");
    }
    const StatusOr<SignedRecord> record = SignedRecordOf(row);
    if (!record.ok()) {
      const bool has_certificate = ReadCertificate(row.certificate, "certificate").ok();
      return broken(has_certificate ? "signature" : "certificate", "those of a record",
                    std::string(Message(record.status())));
    }
    if (!records::IsSignedByItsCertificate(*record)) {
      return broken("signature", "one by the key of the certificate beside it", "another");
    }
    if (authority_ != nullptr) {
      if (const Status good = records::CheckSigned(*record, *authority_); !good.ok()) {
        return broken("certificate", "one of a coordinator by the authority", std::string(Message(good)));
      }
    }
    const auto certificate = ReadCertificate(record->certificate, "certificate");
    report_.signer = certificate->name ? certificate->name->ToString() : certificate->subject;
    ++report_.signatures;
    return std::nullopt;
  }

  Found BreakOfRun(const RunRow& run) {
    const VersionRecord& last = chain_.last();
    const auto broken = [&](const char* place, std::string expected, std::string found) {
      return RecordBreak{last.version, place, std::move(expected), std::move(found)};
    };
    if (run.plan_digest != last.plan.Hex()) return broken("runs.plan_digest", last.plan.Hex(), run.plan_digest);
    for (const RoundRow& round : rounds_) {
      if (round.status != "committed" || round.round <= last.version) continue;
      return broken("records.round", fmt::format("records up to version {}", round.round),
                    fmt::format("the last of version {}", last.version));
    }
    if (first_ == 0 && UnixMs(run.created_at).value_or(-1) != records_.front().made_ms) {
      return RecordBreak{0, "runs.created_at", Iso8601(records_.front().made_ms), run.created_at};
    }
    RIVULET_ASSIGN_OR_RETURN(const auto began_with, history_.FindBlob(report_.run_id, kConfigurationBlob));
    const std::string began = began_with ? began_with->second.bytes : "";
    if (!began_with || Sha256Of(began) != last.configuration) {
      return RecordBreak{first_, "blob.bytes of 'configuration'", last.configuration.Hex(),
                         began_with ? Sha256Of(began).Hex() : "none"};
    }
    const auto first = Scenario::ParseStored(began, "the configuration that the run began with");
    if (!first.ok()) {
      report_.unchecked.push_back(fmt::format("runs.config: {}", Message(first.status())));
      return std::nullopt;
    }
    const auto now = Scenario::ParseStored(run.config, "the run's configuration");
    const Status same = now.ok() ? CheckSamePlanKeys(*first, *now) : now.status();
    if (!same.ok())
      return broken("runs.config", "the configuration that the run began with", std::string(Message(same)));
    if (run.seed != first->run.seed) {
      return broken("runs.seed", fmt::format("{}", first->run.seed), fmt::format("{}", run.seed));
    }
    return std::nullopt;
  }

  // The rows of one version: its attempt, its tasks.
  Found BreakOfRows(const VersionRecord& record) {
    if (record.version == first_) return BreakOfTasks(record, false);  // no update of it is in the records
    const auto broken = [&](const char* place, std::string expected, std::string found) {
      return RecordBreak{record.version, place, std::move(expected), std::move(found)};
    };
    const RoundRow* round = nullptr;
    for (const RoundRow& row : rounds_) {
      if (row.round != record.version || row.status != "committed") continue;
      if (round != nullptr) return broken("rounds.status", "one committed attempt", "two");
      round = &row;
    }
    if (round == nullptr) return broken("rounds.status", "committed", "no committed attempt");
    if (UnixMs(round->finished_at).value_or(-1) != record.made_ms) {
      return broken("rounds.finished_at", Iso8601(record.made_ms), round->finished_at);
    }
    if (round->folded != record.updates) {
      return broken("rounds.folded", fmt::format("{}", record.updates), fmt::format("{}", round->folded));
    }
    const auto parameter = [&](const char* name) -> std::optional<double> {
      if (!record.privacy) return std::nullopt;
      const auto found = record.privacy->parameters.find(name);
      return found == record.privacy->parameters.end() ? std::nullopt : std::optional(found->second);
    };
    const std::pair<const char*, std::pair<std::optional<double>, std::optional<double>>> spends[] = {
        {"rounds.noise_multiplier", {parameter("noise_multiplier"), round->noise_multiplier}},
        {"rounds.sampling_rate", {parameter("sampling_rate"), round->sampling_rate}},
        {"rounds.delta", {record.privacy ? std::optional(record.privacy->delta) : std::nullopt, round->delta}},
        {"rounds.epsilon", {record.privacy ? record.privacy->epsilon : std::nullopt, round->epsilon}},
        {"rounds.participant_epsilon", {parameter("participant_epsilon"), round->participant_epsilon}}};
    for (const auto& [place, values] : spends) {
      if (values.first != values.second) return broken(place, TextOf(values.first), TextOf(values.second));
    }
    return BreakOfTasks(record, true);
  }

  // Tasks are read by the round of their attempt, and name the version that they are in.
  Found BreakOfTasks(const VersionRecord& record, bool compare) {
    RIVULET_ASSIGN_OR_RETURN(const auto tasks, history_.ClientRounds(report_.run_id, record.version));
    for (const ClientRoundRow& task : tasks) {
      if (task.status != "folded" || task.kind != "train") continue;
      folded_[task.committed_round.value_or(task.round)][task.task_id] = task.update_digest;
    }
    const auto updates = folded_[record.version];
    folded_.erase(record.version);
    if (!compare) return std::nullopt;
    const auto broken = [&](std::string expected, std::string found) {
      return RecordBreak{record.version, "client_rounds (task_id, status, committed_round, update_digest)",
                         std::move(expected), std::move(found)};
    };
    if (std::ssize(updates) != record.updates) {
      return broken(fmt::format("{} updates", record.updates), fmt::format("{}", updates.size()));
    }
    std::vector<Digest> leaves;
    for (const auto& [task, identity] : updates) leaves.push_back(records::LeafOf(task, identity));
    const Digest root = records::MerkleTree(std::move(leaves)).root();
    if (root != record.updates_root) {
      return broken(fmt::format("updates with the root {}", record.updates_root.Hex()), root.Hex());
    }
    return std::nullopt;
  }

  Found BreakOfOtherTasks() {
    for (const auto& [version, tasks] : folded_) {
      if (tasks.empty() || version <= first_ || version > chain_.last().version) continue;
      return RecordBreak{version, "client_rounds (task_id, status, committed_round, update_digest)",
                         "no more updates than its record has", fmt::format("'{}'", tasks.begin()->first)};
    }
    return std::nullopt;
  }

  Found BreakOfFiles(const RunRow& run) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history_.Models(report_.run_id));
    const StatusOr<std::shared_ptr<const Plan>> plan = PlanOfStoredRun(history_.path(), report_.run_id);
    if (!plan.ok()) {
      return RecordBreak{chain_.last().version, "the file of the plan", run.plan_digest,
                         std::string(Message(plan.status()))};
    }
    if (*plan == nullptr) report_.unchecked.push_back("the plan's file is missing, so that no model file was read");
    for (const VersionRecord& record : records_) {
      const auto row = std::ranges::find(models, record.version, &ModelRow::round);
      const auto broken = [&](const char* place, std::string expected, std::string found) {
        return RecordBreak{record.version, place, std::move(expected), std::move(found)};
      };
      if (row == models.end()) return broken("models.round", "a row of each version", "none");
      if (row->digest != record.model.Hex()) return broken("models.digest", record.model.Hex(), row->digest);
      if (*plan == nullptr) continue;
      const int64_t parameters = (*plan)->layout()->parameters();
      if (row->parameters != parameters) {
        return broken("models.parameters", fmt::format("{}", parameters), fmt::format("{}", row->parameters));
      }
      if (row->path.empty()) continue;
      RIVULET_ASSIGN_OR_RETURN(auto found, BreakOfFile(*row, record, (*plan)->layout()));
      if (found) return found;
    }
    return std::nullopt;
  }

  Found BreakOfFile(const ModelRow& row, const VersionRecord& record, std::shared_ptr<const ModelLayout> layout) {
    const auto broken = [&](const char* place, std::string expected, std::string found) {
      return RecordBreak{record.version, place, std::move(expected), std::move(found)};
    };
    const std::string path = JoinPath(FolderOf(history_.real_path()), row.path);
    const StatusOr<std::string> bytes = FileSystem::Default().ReadAll(path);
    if (!bytes.ok()) {
      // A run that goes on removes files whose rows it has changed first.
      RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> again, history_.Models(report_.run_id));
      const auto now = std::ranges::find(again, row.round, &ModelRow::round);
      if (now != again.end() && now->path.empty()) return std::nullopt;
      return broken("models.path", "the file of its model", std::string(Message(bytes.status())));
    }
    if (std::ssize(*bytes) != row.bytes) {
      return broken("models.bytes", fmt::format("{}", bytes->size()), fmt::format("{}", row.bytes));
    }
    const StatusOr<ServerState> state = ReadServerState(std::move(layout), *bytes);
    if (!state.ok()) return broken("the file of the model", record.model.Hex(), std::string(Message(state.status())));
    if (state->digest != record.model) {
      return broken("the file of the model", record.model.Hex(), state->digest.Hex());
    }
    RIVULET_ASSIGN_OR_RETURN(const SafetensorsContent content, ParseSafetensors(*bytes));
    const auto stated = content.metadata.find(records::kRecordKey);
    const std::string& digest = digests_.at(record.version);
    // Of a version that an earlier program has written the file states none.
    const bool older = record.version == first_ && stated == content.metadata.end();
    if (!older && (stated == content.metadata.end() || stated->second != digest)) {
      return broken("the file of the model, rivulet.record", digest,
                    stated == content.metadata.end() ? "none" : stated->second);
    }
    ++report_.files;
    return std::nullopt;
  }

  History& history_;
  const Certificate* const authority_;
  RecordsReport report_;
  std::vector<RoundRow> rounds_;
  records::RecordChain chain_;
  int64_t first_ = 0;  // version of the chain's first record
  std::vector<VersionRecord> records_;
  std::map<int64_t, std::string> digests_;  // of records, by version
  // Of tasks whose version has not been looked at: by version and task.
  std::map<int64_t, std::map<TaskId, std::optional<Digest>>> folded_;
};

}  // namespace

std::string RecordBreak::Sentence(const std::string& run_id) const {
  return fmt::format("run '{}' is not as its records state, first at version {}: {} is {}, and {} was expected", run_id,
                     version, place, found, expected);
}

StatusOr<SignedRecord> SignedRecordOf(const RecordRow& row) {
  RIVULET_ASSIGN_OR_RETURN(std::string signature, BytesOfDigits(row.signature));
  return records::SignedRecordOf(row.record, std::move(signature), row.certificate);
}

StatusOr<std::string> RecordStanding(const std::string& db, const std::map<std::string, std::string>& metadata,
                                     const Digest& digest) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const std::string run = text("rivulet.run_id"), round = text("rivulet.round"), stated = text(records::kRecordKey);
  const auto say = [&](std::string_view standing) {
    return fmt::format("{} of version {} of run {}: {}", stated, round, run, standing);
  };
  int64_t version = -1;
  std::from_chars(round.data(), round.data() + round.size(), version);
  const auto history = History::Open(db, History::Access::kReadOnly);
  if (absl::IsNotFound(history.status())) return say(fmt::format("not verified, as there is no history '{}'", db));
  RIVULET_RETURN_IF_ERROR(history.status());
  RIVULET_ASSIGN_OR_RETURN(const std::optional<RecordRow> row, (*history)->FindRecord(run, version));
  if (!row) return say(fmt::format("not verified, as the history '{}' has no record of it", db));
  const StatusOr<VersionRecord> record = records::ReadVersionRecord(row->record);
  if (!record.ok() || row->digest != stated || records::DigestOf(row->record).Hex() != stated) {
    return say(fmt::format("not the record of that version in the history '{}'", db));
  }
  if (record->model != digest) return say("this is not the model that the record states; the file was changed");
  return say(
      fmt::format("the record in the history '{}' states this model ('rivulet runs verify {}' checks it)", db, run));
}

StatusOr<RecordsReport> CheckRunRecords(const std::string& db, const std::string& run_id,
                                        const Certificate* authority) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  return RecordsOfRun(*history, run_id, authority).Check();
}

}  // namespace rivulet
