// rivulet backup: a history with its models, while runs write.
#include "coordinator/history/backup.h"

#include <set>

#include "cli/command.h"
#include "coordinator/history/history.h"
#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "engine/base/table.h"
#include "federated/scenario/scenario.h"

namespace rivulet {
namespace {

struct BackupOptions {
  std::string db = "./rivulet.sqlite";
  std::string out;
  bool json = false;
};

// The places of the bases of a history's runs, from their configurations.
StatusOr<std::set<std::string>> BasesOf(const std::string& db) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RunRow> runs, history->Runs());
  std::set<std::string> bases;
  for (const RunRow& run : runs) {
    if (run.foreign() || run.config.find("\nbase = ") == run.config.npos) continue;
    const auto scenario = Scenario::ParseStored(run.config, fmt::format("the stored configuration of {}", run.run_id));
    if (scenario.ok() && !scenario->model.base.empty()) bases.insert(scenario->model.base);
  }
  return bases;
}

Status BackUp(const BackupOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const Backup backup, BackUpHistory(FileSystem::Default(), options.db, options.out));
  RIVULET_ASSIGN_OR_RETURN(const std::set<std::string> bases, BasesOf(options.out));
  if (options.json) {
    Json json = {{"backup", options.out}, {"runs", backup.runs}, {"files", backup.files}, {"bytes", backup.bytes}};
    if (!bases.empty()) json["bases_not_copied"] = Json(bases);
    fmt::print("{}\n", json.Dump());
  } else {
    fmt::print("{}: {} run{}, {} file{} of models and plans, {} bytes\n", options.out, backup.runs,
               backup.runs == 1 ? "" : "s", backup.files, backup.files == 1 ? "" : "s", backup.bytes);
    for (const std::string& base : bases)
      fmt::print("not copied: the base '{}'; its runs need it, so keep a copy\n", OneLine(base));
  }
  return absl::OkStatus();
}

const RegisterCommand kBackup(52, [] {
  auto options = std::make_shared<BackupOptions>();
  Command command{
      .name = "backup",
      .summary = "Copy a history with its models, even while runs write to it.",
      .example =
          "rivulet backup --db rivulet.sqlite --out backups/monday.sqlite\n"
          "  rivulet coordinator scenario.toml --db backups/monday.sqlite --resume latest --listen 0.0.0.0:7000 "
          "--tls coordinator"};
  command.Option("--db", "FILE", &options->db, "the history [./rivulet.sqlite]")
      .Required("--out", "FILE", &options->out, "the copy, a new file; models are in FILE.models/");
  command.Flag("--json", &options->json, "print one JSON object");
  command.run = [options] { return BackUp(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
