// rivulet runs rounds: a run's rounds, a line per attempt.
#include <algorithm>
#include <map>

#include "cli/runs/commands.h"
#include "coordinator/ledger/ledger.h"

namespace rivulet {
namespace {

struct RoundsOptions {
  HistoryOptions history;
  std::string run;
  bool wide = false;
};

Status PrintRounds(const RoundsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto rounds, history->Rounds(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto summaries, history->RoundSummaries(run.run_id));
  std::map<int64_t, double> virtual_seconds;
  RIVULET_ASSIGN_OR_RETURN(const auto metrics, history->Metrics(run.run_id, "federated"));
  for (const MetricRow& metric : metrics)
    if (metric.name == kVirtualSeconds && metric.value) virtual_seconds[metric.round] = *metric.value;
  std::map<int64_t, const RoundSummaryRow*> evaluated;
  for (const RoundSummaryRow& summary : summaries) evaluated[summary.round] = &summary;
  // Columns for attempt and reason are shown only if some attempt was not the first or was not committed.
  const bool smooth = std::ranges::all_of(rounds, [](const RoundRow& round) {
    return round.attempt == 1 && round.status == "committed" && round.reason.empty();
  });
  const auto any = [&](int64_t RoundRow::*count) {
    return std::ranges::any_of(rounds, [&](const RoundRow& round) { return round.*count > 0; });
  };
  const bool noised = std::ranges::any_of(rounds, [](const RoundRow& round) { return round.epsilon.has_value(); });
  const auto loss_rank = [&](int64_t RoundRow::*count) { return any(count) ? 4 : 7; };
  std::vector<Column> columns = ColumnsOf<RoundRow>({{"run_id", true},
                                                     {"attempt", smooth},
                                                     {"status", smooth},
                                                     {"reason", smooth, 4, 30, "", 1},
                                                     {"started_at", true},
                                                     {"finished_at", true},
                                                     {"selected", false, 4, 0, "", 6},
                                                     {"reported", false, 4, 0, "", 5},
                                                     {"folded", true},
                                                     {"refused", !any(&RoundRow::refused), 4, 0, "", 4},
                                                     {"dropped", false, 4, 0, "", loss_rank(&RoundRow::dropped)},
                                                     {"failed", false, 4, 0, "", loss_rank(&RoundRow::failed)},
                                                     {"examples", false, 4, 0, "", 8},
                                                     {"train_loss", false, 4, 0, "", 3},
                                                     {"bytes_down", true},
                                                     {"bytes_up", true},
                                                     {"train_seconds", false, 2, 0, "", 4},
                                                     {"aggregate_seconds", true},
                                                     {"evaluate_seconds", true},
                                                     {"noise_multiplier", true},
                                                     {"sampling_rate", true},
                                                     {"delta", true},
                                                     {"epsilon", !noised, 4, 0, "", 2},
                                                     {"participant_epsilon", true},
                                                     {"model_digest", false, 4, 13, "", 9}});
  // The committed model's measures are beside its training's loss.
  const auto after = std::ranges::find(columns, "bytes_down", &Column::name);
  const auto at = after - columns.begin();
  columns.insert(after, {{"test_accuracy", false, 4, 0, "", smooth ? 0 : 2}, {"test_loss", false, 4, 0, "", 3}});
  // A column only for runs with virtual time.
  if (!virtual_seconds.empty()) columns.push_back({"virtual_seconds", false, 1, 0, "", 3});
  Table table(std::move(columns));
  for (const RoundRow& round : rounds) {
    const auto found = evaluated.find(round.round);
    const bool committed = round.status == "committed" && found != evaluated.end();
    std::vector<Cell> cells = CellsOf(round);
    cells.insert(cells.begin() + at, {committed ? CellOrNull(found->second->test_accuracy) : Cell(),
                                      committed ? CellOrNull(found->second->test_loss) : Cell()});
    if (!virtual_seconds.empty()) {
      const auto made = virtual_seconds.find(round.round);
      cells.push_back(committed && made != virtual_seconds.end() ? Cell(made->second) : Cell());
    }
    table.Add(std::move(cells));
  }
  PrintRows(table, options.history.json, options.wide, "no rounds yet");
  return absl::OkStatus();
}

}  // namespace

Command RunsRoundsCommand() {
  auto options = std::make_shared<RoundsOptions>();
  Command command{.name = "rounds",
                  .summary = "List a run's rounds, with every attempt.",
                  .example = "rivulet runs rounds latest\n  rivulet runs rounds latest --json"};
  command.Positional("RUN", &options->run, kRunHelp);
  AddHistoryOptions(command, &options->history);
  command.Flag("--wide", &options->wide, "print all columns, even beyond the terminal's width");
  command.run = [options] { return PrintRounds(*options); };
  return command;
}

}  // namespace rivulet
