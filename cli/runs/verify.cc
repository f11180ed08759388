// rivulet runs verify: checks a stored run against its versions' records, then repeats it and compares each version
// with the history.
#include "certificates/certificate.h"
#include "cli/run/prepare_data.h"
#include "cli/run/replay_here.h"
#include "cli/runs/commands.h"
#include "cli/runs/kept_receipts.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "federated/scenario/scenario.h"
#include "inspect/run_records.h"
#include "inspect/stored_files.h"

namespace rivulet {
namespace {

struct VerifyRunOptions {
  HistoryOptions history;
  std::string run;
  std::vector<std::string> sets;
  std::optional<int64_t> workers, from, to;
  std::string authority, receipts;
  bool records_alone = false;
};

// The JSON members with the results of checking the records.
Json RecordsJson(const RecordsReport& report) {
  Json json = {{"records", report.records},
               {"signatures", report.signatures},
               {"files", report.files},
               {"head", report.head.empty() ? Json(nullptr) : Json(report.head)},
               {"signer", report.signer.empty() ? Json(nullptr) : Json(report.signer)},
               {"unchecked", report.unchecked}};
  if (const auto& broken = report.first_break) {
    json["break"] = {{"version", broken->version},
                     {"place", broken->place},
                     {"expected", broken->expected},
                     {"found", broken->found}};
  }
  return json;
}

// Prints a JSON object: `replayed`, and the results of checking the records.
void PrintVerified(const RecordsReport& report, Json object) {
  const Json checked = RecordsJson(report);
  for (const auto& [name, value] : checked.members()) object[name] = value;
  fmt::print("{}\n", object.Dump());
}

void PrintRecordsReport(const RecordsReport& report) {
  if (report.records > 0) {
    fmt::print("run {}: {} records are one chain, up to version {}; {} signature{}{}, {} model file{}\n", report.run_id,
               report.records, report.newest, report.signatures, report.signatures == 1 ? "" : "s",
               report.signer.empty() ? "" : fmt::format(" by {}", report.signer), report.files,
               report.files == 1 ? "" : "s");
    fmt::print("{:<13} {}\n", "head", report.head);
  }
  for (const std::string& sentence : report.unchecked) fmt::print("{:<13} {}\n", "not checked", sentence);
}

StatusOr<std::optional<Certificate>> AuthorityToVerify(const VerifyRunOptions& options) {
  if (options.authority.empty()) return std::nullopt;
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, FileSystem::Default().ReadAll(options.authority));
  StatusOr<Certificate> certificate = ReadCertificate(pem, options.authority);
  if (!certificate.ok()) return AsUsageError(certificate.status());
  return *std::move(certificate);
}

// The tasks of a run with clients' own training cannot be repeated. So its files are compared: the base, and each
// stored version.
Status VerifyFiles(const VerifyRunOptions& options, const std::string& run_id, const Scenario& scenario,
                   const RecordsReport& report) {
  RIVULET_ASSIGN_OR_RETURN(
      const StoredFiles files,
      CheckStoredFiles(options.history.db, run_id, scenario, options.from.value_or(0), options.to.value_or(INT64_MAX)));
  if (options.history.json) {
    Json told = {{"run_id", run_id}, {"versions", files.versions}, {"tasks", 0}, {"model_digest", files.model_digest}};
    if (files.base) told["base_digest"] = files.base->Hex();
    PrintVerified(report, std::move(told));
    return absl::OkStatus();
  }
  PrintRecordsReport(report);
  fmt::print("run {}: {} stored version{} as recorded; its clients trained in their own way, and no task is repeated\n",
             run_id, files.versions, files.versions == 1 ? " is" : "s are");
  fmt::print("{:<13} {}\n", "model digest", files.model_digest);
  if (files.base) fmt::print("{:<13} {}\n", "base digest", files.base->Hex());
  return absl::OkStatus();
}

StatusOr<Scenario> ScenarioToReplay(const VerifyRunOptions& options, const RunRow& run) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const std::string& set : options.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      return UsageError("--set takes KEY=VALUE, not '{}'", Shortened(set));
    overrides.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  const std::string title = fmt::format("the stored configuration of run {}", run.run_id);
  RIVULET_ASSIGN_OR_RETURN(const Scenario stored, Scenario::ParseStored(run.config, title));
  StatusOr<Scenario> scenario = Scenario::ParseStored(run.config, title, overrides);
  if (!scenario.ok()) return AsUsageError(scenario.status());
  // Another learning rate gives another run, and nothing would be verified.
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckSamePlanKeys(stored, *scenario)));
  return scenario;
}

// Records that clients were shown must be those of the history.
Status CompareReceipts(const VerifyRunOptions& options, const std::string& run_id, const Certificate* authority) {
  if (options.receipts.empty()) return absl::OkStatus();
  KeptReceipts kept;
  RIVULET_RETURN_IF_ERROR(ReadReceipts(options.receipts, authority, kept));
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  int64_t compared = 0;
  for (size_t i = 0; i < kept.records.size(); ++i) {
    const records::SignedRecord& shown = kept.records[i];
    if (shown.record.run != run_id) continue;
    RIVULET_ASSIGN_OR_RETURN(const auto stored, history->FindRecord(run_id, shown.record.version));
    if (!stored || stored->digest != shown.digest.Hex()) {
      return DataLoss(
          "run '{}' is not as its clients were shown it, first at version {}: its record is {}, and {} in {}", run_id,
          shown.record.version, stored ? stored->digest : "missing", shown.digest.Hex(), kept.files[i]);
    }
    ++compared;
  }
  if (compared == 0) return NotFound("{} has no receipt of run {}", options.receipts, run_id);
  return absl::OkStatus();
}

// Records come first: of a configuration that was changed they name the change.
Status VerifyRun(const VerifyRunOptions& options) {
  RunRow run;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
    RIVULET_ASSIGN_OR_RETURN(run, history->ResolveRun(options.run));
  }
  RIVULET_RETURN_IF_ERROR(CheckOurs(run));
  RIVULET_ASSIGN_OR_RETURN(const std::optional<Certificate> authority, AuthorityToVerify(options));
  RIVULET_ASSIGN_OR_RETURN(RecordsReport report,
                           CheckRunRecords(options.history.db, run.run_id, authority ? &*authority : nullptr));
  if (options.records_alone) report.unchecked.push_back("no task was repeated (--records)");
  if (report.first_break) {
    if (options.history.json) PrintVerified(report, {{"run_id", run.run_id}});
    return DataLoss("{}", report.first_break->Sentence(run.run_id));
  }
  RIVULET_RETURN_IF_ERROR(CompareReceipts(options, run.run_id, authority ? &*authority : nullptr));
  if (options.records_alone) {
    if (report.records == 0) {
      return FailedPrecondition("run {} has no records to check; leave out --records to have it replayed", run.run_id);
    }
    if (options.history.json) {
      PrintVerified(report, {{"run_id", run.run_id}});
    } else {
      PrintRecordsReport(report);
    }
    return absl::OkStatus();
  }
  ReplayOptions replay{.db_path = options.history.db,
                       .run = run.run_id,
                       .workers = static_cast<int>(options.workers.value_or(0)),
                       .first = options.from.value_or(1),
                       .last = options.to.value_or(0)};
  RIVULET_ASSIGN_OR_RETURN(replay.scenario, ScenarioToReplay(options, run));
  if (!replay.scenario.model.arrays.empty()) return VerifyFiles(options, replay.run, replay.scenario, report);
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(replay.scenario));
  RIVULET_ASSIGN_OR_RETURN(const ReplayResult result, ReplayHere(std::move(replay)));
  if (options.history.json) {
    PrintVerified(report, {{"run_id", result.run_id},
                           {"versions", result.versions},
                           {"tasks", result.tasks},
                           {"model_digest", result.model_digest.Hex()}});
  } else {
    PrintRecordsReport(report);
    fmt::print("run {}: {} versions of {} tasks are as recorded\n{:<13} {}\n", result.run_id, result.versions,
               result.tasks, "model digest", result.model_digest.Hex());
  }
  return absl::OkStatus();
}

}  // namespace

Command RunsVerifyCommand() {
  auto options = std::make_shared<VerifyRunOptions>();
  Command command{.name = "verify",
                  .summary =
                      "Check a run against the records of its versions, then replay it from its history and compare "
                      "every version, to "
                      "the bit.",
                  .example =
                      "rivulet runs verify latest\n"
                      "  rivulet runs verify latest --records --authority study/authority.crt\n"
                      "  rivulet runs verify latest --from 41 --to 50\n"
                      "  rivulet runs verify latest --set data.train=/elsewhere/train.tfrecord"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Repeated("--set", "KEY=VALUE", &options->sets,
                "give the present path of a file, such as data.train=FILE; repeatable")
      .Option("--from", "ROUND", &options->from, "first round, from the stored model of the round before [1]",
              {1, INT64_MAX})
      .Option("--to", "ROUND", &options->to, "last round [the run's last]", {1, INT64_MAX})
      .Option("--authority", "CERT", &options->authority,
              "refuse records that no coordinator of this authority has signed (its authority.crt)")
      .Option("--receipts", "DIR", &options->receipts,
              "compare the records with those that a client was shown ('rivulet client --receipts')")
      .Flag("--records", &options->records_alone, "check records, rows and files alone, and repeat no task")
      .Option("--workers", "N", &options->workers, "threads that train clients [one per core]", {1, 1024});
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return VerifyRun(*options); };
  return command;
}

}  // namespace rivulet
