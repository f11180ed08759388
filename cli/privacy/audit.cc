// rivulet privacy audit: an audit of a stored run's privacy by canary clients.
#include "cli/privacy/audit.h"

#include <memory>

#include "cli/privacy/rounds_options.h"
#include "cli/run/prepare_data.h"
#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "engine/base/json.h"
#include "simulations/canary_audit.h"

namespace rivulet {
namespace {

struct CanaryAuditCommandOptions {
  HistoryOptions history;
  std::string run;
  std::optional<int64_t> guesses;
};

Status PrintCanaryAudit(const CanaryAuditCommandOptions& options) {
  CanaryAuditOptions asked{.db_path = options.history.db, .guesses = options.guesses.value_or(0)};
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    asked.run = run.run_id;
    RIVULET_ASSIGN_OR_RETURN(
        asked.scenario,
        Scenario::ParseStored(run.config, fmt::format("the stored configuration of run {}", run.run_id)));
  }
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(asked.scenario));
  RIVULET_ASSIGN_OR_RETURN(const CanaryAudit audit, AuditByCanaries(asked));
  const bool json = options.history.json;
  if (audit.canaries < privacy::kFewCanaries) {
    PrintNote(fmt::format("{} canaries are few: an audit with fewer than {} finds little, and its estimate is rough; "
                          "raise attack.fraction or the number of clients",
                          audit.canaries, privacy::kFewCanaries),
              Note::kImportant);
  }
  Fields fields = {{"run_id", audit.run_id},
                   {"round", audit.round},
                   {"releases", audit.releases},
                   {"canaries", audit.canaries},
                   {"taken", audit.taken},
                   {"guesses", audit.guessed.guesses},
                   {"right", audit.guessed.right},
                   {"estimate", PrivacyNumberCell(audit.estimate.epsilon, json)},
                   {"at_least", PrivacyNumberCell(audit.guessed.epsilon, json)},
                   {"confidence", PrivacyNumberCell(asked.confidence, json)},
                   {"delta", PrivacyNumberCell(audit.dp_delta, json)}};
  if (audit.claimed) {
    fields.emplace_back("claimed", PrivacyNumberCell(*audit.claimed, json));
    fields.emplace_back("refuted", audit.refuted());
  }
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

}  // namespace

Command PrivacyAuditCommand() {
  auto options = std::make_shared<CanaryAuditCommandOptions>();
  Command command{
      .name = "audit",
      .summary = "Estimate a simulated run's epsilon from its canary clients, with a lower bound.",
      .example =
          "rivulet simulate quickstart --set algorithm.name=dp_fedavg --set privacy.clip=1 --set attack.name=canary\n"
          "  rivulet privacy audit latest"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Option(
          "--guesses", "N", &options->guesses,
          "canaries to guess about, an even number; choose it before you see a result [a fifth of them, at least 40]",
          {2, INT64_MAX});
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return PrintCanaryAudit(*options); };
  return command;
}

}  // namespace rivulet
