// rivulet backup: a history with its models, while runs write.
#include "coordinator/history/backup.h"

#include "cli/command.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

struct BackupOptions {
  std::string db = "./rivulet.sqlite";
  std::string out;
  bool json = false;
};

Status BackUp(const BackupOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const Backup backup, BackUpHistory(FileSystem::Default(), options.db, options.out));
  if (options.json) {
    fmt::print(
        "{}\n",
        JsonObject({{"backup", options.out}, {"runs", backup.runs}, {"files", backup.files}, {"bytes", backup.bytes}}));
  } else {
    fmt::print("{}: {} run{}, {} file{} of models and plans, {} bytes\n", options.out, backup.runs,
               backup.runs == 1 ? "" : "s", backup.files, backup.files == 1 ? "" : "s", backup.bytes);
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
