// rivulet status, pause, resume, stop, abort: the runs of a running coordinator.
#include <memory>

#include "cli/operate/operate.h"
#include "cli/terminal.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

struct SteerOptions {
  OperatorOptions to;
  std::string run, reason;
};

Status PrintStatus(const SteerOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options.to));
  RIVULET_ASSIGN_OR_RETURN(const ServedRuns served, control->Runs({}));
  std::string warnings;
  for (const std::string& warning : served.warnings) {
    fmt::print(stderr, "warning: {}\n", OneLine(warning));
    warnings += (warnings.empty() ? "" : "; ") + warning;
  }
  Table table({{.name = "run_id"},
               {.name = "name", .only_json = true},
               {.name = "state"},
               {.name = "paused", .only_json = true},
               {.name = "stopping", .only_json = true},
               {.name = "round"},
               {.name = "rounds", .title = "of"},
               {.name = "attempt", .rank = 3},
               {.name = "selected", .rank = 2},
               {.name = "folded", .rank = 2},
               {.name = "clients", .rank = 1},
               {.name = "awaits"},
               {.name = "warnings", .only_json = true}});
  for (const RunState& run : served.runs) {
    if (!options.run.empty() && run.run_id != options.run && run.name != options.run) continue;
    std::string state = run.state;
    if (!options.to.json && run.paused) state += ", paused";
    if (!options.to.json && run.stopping) state += ", ends";
    table.Add({run.run_id, run.name, std::move(state), run.paused, run.stopping, run.round, run.rounds, run.attempt,
               run.selected, run.folded, run.clients, TextCell(run.awaits), TextCell(warnings)});
  }
  if (table.size() == 0 && !options.run.empty())
    return NotFound("no run '{}' is served at {}", Shortened(options.run), options.to.coordinator);
  if (table.size() == 0 && !options.to.json) fmt::print(stderr, "no run is served there yet\n");
  fmt::print("{}", options.to.json ? table.Json() : table.Text(ResultColumns()));
  return absl::OkStatus();
}

Command SteerCommand(std::string action, std::string summary) {
  auto options = std::make_shared<SteerOptions>();
  Command command{.name = action,
                  .summary = std::move(summary),
                  .example = fmt::format("rivulet {} --coordinator fl.example.org:7000 --tls operator-alice", action)};
  command.OptionalPositional("RUN", &options->run, "the run's id or name; optional if one run is active");
  AddOperatorOptions(command, &options->to);
  command.Option("--reason", "TEXT", &options->reason, "reason, kept in the audit");
  command.run = [options, action = std::move(action)]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options->to));
    RIVULET_ASSIGN_OR_RETURN(const std::string sentence, control->Command({}, {action, options->run, options->reason}));
    fmt::print("{}\n", OneLine(sentence));
    return absl::OkStatus();
  };
  return command;
}

const RegisterCommand kStatus(31, [] {
  auto options = std::make_shared<SteerOptions>();
  Command command{.name = "status",
                  .summary = "Print the status of a coordinator's runs: progress, and missing updates.",
                  .example = "rivulet status --coordinator fl.example.org:7000 --tls operator-alice"};
  command.OptionalPositional("RUN", &options->run, "the run's id or name [all runs]");
  AddOperatorOptions(command, &options->to);
  command.Flag("--json", &options->to.json, "print an array of objects");
  command.run = [options] { return PrintStatus(*options); };
  return command;
});
const RegisterCommand kPause(32, [] { return SteerCommand("pause", "Pause a run after its current round."); });
const RegisterCommand kResume(33, [] { return SteerCommand("resume", "Resume a paused run."); });
const RegisterCommand kStop(34, [] {
  return SteerCommand("stop", "End a run once its open round is committed; it can be resumed.");
});
const RegisterCommand kAbort(35, [] {
  return SteerCommand("abort", "Abort a run at once. Updates under way are lost; the run can be resumed.");
});

}  // namespace
}  // namespace rivulet
