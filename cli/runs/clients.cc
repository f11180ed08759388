// rivulet runs clients: a run's clients, their tasks and how these ended.
#include <algorithm>
#include <set>

#include "cli/runs/commands.h"
#include "coordinator/history/questions.h"

namespace rivulet {
namespace {

struct ClientsOptions {
  HistoryOptions history;
  std::string run;
  std::string sort = "client_id";
  bool wide = false;
};

Status PrintClients(const ClientsOptions& options) {
  using Row = ClientReliabilityRow;
  std::vector<Row> clients;
  DeclaredNumbers declared;
  {
    LongWork work("reading the history", true);
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history, work));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    RIVULET_ASSIGN_OR_RETURN(clients, history->ClientReliability(run.run_id));
    RIVULET_ASSIGN_OR_RETURN(declared, LastDeclared(*history, run.run_id));
  }
  // Rows are sorted by name; any other order starts with the most problematic clients.
  if (options.sort == "reliability") {
    std::ranges::stable_sort(clients, {}, &Row::reliability);
  } else if (options.sort == "slowest") {
    std::ranges::stable_sort(clients, std::greater{}, [](const Row& c) { return c.mean_train_seconds.value_or(-1); });
  } else if (options.sort == "tasks") {
    std::ranges::stable_sort(clients, std::greater{}, &Row::tasks);
  } else if (options.sort != "client_id") {
    return UsageError("--sort takes client_id, reliability, slowest or tasks, not '{}'", Shortened(options.sort));
  }
  std::set<std::string> numbers;
  for (const auto& [client, said] : declared)
    for (const auto& [name, value] : said) numbers.insert(name);
  std::vector<Column> columns = ColumnsOf<Row>({{"run_id", true},
                                                {"folded", false, 4, 0, "", 1},
                                                {"refused", false, 4, 0, "", 4},
                                                {"dropped", false, 4, 0, "", 4},
                                                {"failed", false, 4, 0, "", 4},
                                                {"reliability", false, 2},
                                                {"examples", false, 4, 0, "", 2},
                                                {"mean_train_seconds", false, 3, 0, "", 3},
                                                {"last_seen_at", false, 4, 0, "", 5}});
  for (const std::string& name : numbers) columns.push_back({.name = name, .digits = -1});
  Table table(std::move(columns));
  for (const Row& client : clients) {
    std::vector<Cell> cells = CellsOf(client);
    const auto said = declared.find(client.client_id);
    for (const std::string& name : numbers) {
      const bool known = said != declared.end() && said->second.contains(name);
      cells.push_back(known ? Cell(said->second.at(name)) : Cell());
    }
    table.Add(std::move(cells));
  }
  PrintRows(table, options.history.json, options.wide, "no client has had a task yet");
  return absl::OkStatus();
}

}  // namespace

Command RunsClientsCommand() {
  auto options = std::make_shared<ClientsOptions>();
  Command command{.name = "clients",
                  .summary = "List a run's clients: how many tasks each was given, and how they ended.",
                  .example = "rivulet runs clients latest\n  rivulet runs clients latest --sort reliability"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Option("--sort", "COLUMN", &options->sort,
              "client_id, reliability (worst first), slowest or tasks (most first) [client_id]");
  AddHistoryOptions(command, &options->history);
  command.Flag("--wide", &options->wide, "print all columns, even beyond the terminal's width");
  command.run = [options] { return PrintClients(*options); };
  return command;
}

}  // namespace rivulet
