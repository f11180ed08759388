// rivulet clients: the clients of a running coordinator, their admission, and the operator's decisions.
#include <memory>

#include "certificates/certificate.h"
#include "cli/operate/operate.h"
#include "cli/terminal.h"
#include "coordinator/history/rows.h"
#include "engine/base/clock.h"
#include "engine/base/table.h"
#include "federated/transport/all_clients.h"

namespace rivulet {
namespace {

Cell TimeCell(int64_t unix_ms, bool json) {
  if (unix_ms == 0) return Cell();
  return json ? Cell(Iso8601(unix_ms)) : Cell(AgoText(unix_ms));
}

Status ListClients(const OperatorOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options));
  Table table({{.name = "client_id"},
               {.name = "state"},
               {.name = "last_seen_at", .title = "seen", .rank = 4},
               {.name = "doing"},
               {.name = "since", .rank = 3},
               {.name = "round"},
               {.name = "run_id", .rank = 5},
               {.name = "task_id", .only_json = true},
               {.name = "parent_id", .title = "through", .rank = 2},
               {.name = "version", .rank = 2},
               {.name = "certificate_days_left", .title = "cert. days", .rank = 3},
               {.name = "serial", .only_json = true},
               {.name = "detail", .width = 40, .rank = 1},
               {.name = "error", .width = 60, .title = "last error", .rank = 1},
               {.name = "error_at", .only_json = true}});
  const bool json = options.json;
  const int64_t now = Clock::System().UnixMs() / 1000;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientState> clients, AllClients(*control));
  for (const ClientState& c : clients) {
    const bool works = !c.task.empty();
    table.Add({c.client_id, c.state, TimeCell(c.last_seen_unix_ms, json), TextCell(c.doing),
               TimeCell(c.since_unix_ms, json), works ? Cell(c.round) : Cell(), TextCell(c.run_id), TextCell(c.task),
               TextCell(c.via), TextCell(c.version),
               c.valid_until_unix_ms == 0 ? Cell() : Cell(DaysLeft(c.valid_until_unix_ms / 1000, now)),
               TextCell(c.serial), TextCell(c.detail), TextCell(c.error), TimeCell(c.error_unix_ms, json)});
  }
  if (table.size() == 0 && !json) fmt::print(stderr, "no client has called yet\n");
  fmt::print("{}", json ? table.Json() : table.Text(ResultColumns()));
  return absl::OkStatus();
}

struct DecideOptions {
  OperatorOptions to;
  std::string name, reason;
};

Command DecideCommand(std::string action, std::string summary, std::string example, bool with_reason) {
  auto options = std::make_shared<DecideOptions>();
  Command command{.name = action, .summary = std::move(summary), .example = std::move(example)};
  command.Positional("NAME", &options->name, "the client's name, as in `rivulet clients`");
  AddOperatorOptions(command, &options->to);
  if (with_reason)
    command.Option("--reason", "TEXT", &options->reason, "reason, sent to the client and kept in the audit");
  command.run = [options, action = std::move(action)]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options->to));
    RIVULET_ASSIGN_OR_RETURN(const std::string sentence,
                             control->Command({}, {action, options->name, options->reason}));
    fmt::print("{}\n", OneLine(sentence));
    return absl::OkStatus();
  };
  return command;
}

Status PrintAudit(const OperatorOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto control, ConnectAsOperator(options));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditEntry> entries, control->Audit({}));
  Table table({{.name = "at"},
               {.name = "operator_id", .title = "operator"},
               {.name = "serial", .only_json = true},
               {.name = "action"},
               {.name = "run_id"},
               {.name = "client_id"},
               {.name = "detail", .width = 60}});
  for (const AuditEntry& e : entries) {
    table.Add({e.at, e.operator_id, TextCell(e.serial), e.action, TextCell(e.run_id), TextCell(e.client_id),
               TextCell(e.detail)});
  }
  if (entries.empty() && !options.json) fmt::print(stderr, "no operator has done anything yet\n");
  fmt::print("{}", options.json ? table.Json() : table.Text(ResultColumns()));
  return absl::OkStatus();
}

Command AuditCommand() {
  auto options = std::make_shared<OperatorOptions>();
  Command command{.name = "audit",
                  .summary = "List the operators' actions: approvals, bans, submissions, pauses and stops.",
                  .example = "rivulet clients audit --coordinator fl.example.org:7000 --tls operator-alice"};
  AddOperatorOptions(command, options.get());
  command.Flag("--json", &options->json, "print an array of objects");
  command.run = [options] { return PrintAudit(*options); };
  return command;
}

const RegisterCommand kClients(30, [] {
  auto options = std::make_shared<OperatorOptions>();
  Command command{.name = "clients",
                  .summary = "List the clients of a running coordinator, and their admission.",
                  .example =
                      "rivulet clients --coordinator fl.example.org:7000 --tls operator-alice\n"
                      "  rivulet clients ban hospital-b --reason 'sends noise' --coordinator fl.example.org:7000 --tls "
                      "operator-alice"};
  AddOperatorOptions(command, options.get());
  command.Flag("--json", &options->json, "print an array of objects");
  command.run = [options] { return ListClients(*options); };
  command.subcommands.push_back(DecideCommand(
      "approve", "Admit a client that is not in --clients, or that was banned.",
      "rivulet clients approve hospital-c --coordinator fl.example.org:7000 --tls operator-alice", false));
  command.subcommands.push_back(DecideCommand(
      "ban", "Keep a client out: its task ends, its next call is refused, also after a restart.",
      "rivulet clients ban hospital-b --reason 'sends noise' --coordinator fl.example.org:7000 --tls operator-alice",
      true));
  command.subcommands.push_back(
      DecideCommand("remove", "Remove a client: its task ends; it may join again as a new one.",
                    "rivulet clients remove hospital-b --coordinator fl.example.org:7000 --tls operator-alice", true));
  command.subcommands.push_back(AuditCommand());
  return command;
});

}  // namespace
}  // namespace rivulet
