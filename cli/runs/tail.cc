// rivulet runs tail: a run's rounds and events as they are written.
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "cli/interrupt.h"
#include "cli/runs/commands.h"
#include "inspect/run_status.h"

namespace rivulet {
namespace {

struct TailOptions {
  HistoryOptions history;
  std::string run;
  std::optional<int64_t> lines;
};

constexpr int kAskEveryMs = 500;

// A line to print, with its time.
struct TailLine {
  std::string at, text;
  bool operator<(const TailLine& other) const { return at < other.at; }
};

std::string RoundLine(const RoundRow& round, const RoundSummaryRow* summary, bool json) {
  if (json) {
    Fields fields;
    for (auto& [name, value] : Shown(round)) fields.emplace_back(name, value);
    fields.emplace_back("test_accuracy", summary != nullptr ? CellOrNull(summary->test_accuracy) : Cell());
    fields.emplace_back("test_loss", summary != nullptr ? CellOrNull(summary->test_loss) : Cell());
    return JsonObject(fields);
  }
  std::string text = fmt::format("round {}", round.round);
  if (round.attempt > 1) text += fmt::format(", attempt {}", round.attempt);
  if (round.status != "committed") return fmt::format("{} {}: {}", text, round.status, OneLine(round.reason));
  if (summary != nullptr && summary->test_accuracy) text += fmt::format("  accuracy {:.4f}", *summary->test_accuracy);
  if (summary != nullptr && summary->test_loss) text += fmt::format("  loss {:.4f}", *summary->test_loss);
  if (round.train_loss) text += fmt::format("  train loss {:.4f}", *round.train_loss);
  return text + fmt::format("  {} of {} clients", round.folded, round.selected);
}

std::string EventText(const EventRow& event, bool json) {
  if (!json) return fmt::format("{}{}", event.level == "info" ? "" : event.level + ": ", OneLine(event.message));
  Fields fields;
  for (auto& [name, value] : Shown(event)) fields.emplace_back(name, value);
  return JsonObject(fields);
}

// Rounds and events are written in order, so new ones follow those read before.
Status TailRun(const TailOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(const RunRow found, history->ResolveRun(options.run));
  const std::string run_id = found.run_id;
  const bool json = options.history.json;
  Interrupt interrupt;
  size_t rounds_told = 0, events_told = 0;
  for (bool first = true;; first = false) {
    // Read before the rows, so that none of the last moment is missed.
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(run_id));
    const std::string status = StatusNow(history->real_path(), run_id, run.status);
    RIVULET_ASSIGN_OR_RETURN(const auto rounds, history->Rounds(run_id));
    RIVULET_ASSIGN_OR_RETURN(const auto events, history->Events(run_id));
    std::vector<TailLine> lines;
    if (rounds.size() > rounds_told) {
      RIVULET_ASSIGN_OR_RETURN(const auto summaries, history->RoundSummaries(run_id));
      for (size_t i = rounds_told; i < rounds.size(); ++i) {
        const auto summary = std::ranges::lower_bound(summaries, rounds[i].round, {}, &RoundSummaryRow::round);
        const bool has = summary != summaries.end() && summary->round == rounds[i].round;
        lines.push_back({rounds[i].finished_at, RoundLine(rounds[i], has ? &*summary : nullptr, json)});
      }
    }
    for (size_t i = events_told; i < events.size(); ++i) lines.push_back({events[i].at, EventText(events[i], json)});
    rounds_told = rounds.size();
    events_told = events.size();
    std::ranges::stable_sort(lines, std::less{});
    const size_t most = first && options.lines ? static_cast<size_t>(*options.lines) : lines.size();
    for (size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i) {
      const std::string& at = lines[i].at;
      fmt::print("{}{}\n", json ? "" : (at.size() < 19 ? at : at.substr(11, 8)) + " ", lines[i].text);
    }
    std::fflush(stdout);
    if (status != "running") {
      if (!json)
        fmt::print("run {} {}\n", run_id,
                   status == "failed"     ? "has failed: " + OneLine(run.reason)
                   : status == "finished" ? "has finished"
                                          : "was interrupted");
      return absl::OkStatus();
    }
    pollfd signal = {.fd = interrupt.fd(), .events = POLLIN, .revents = 0};
    poll(&signal, 1, kAskEveryMs);
    if (interrupt.happened()) return absl::OkStatus();
  }
}

}  // namespace

Command RunsTailCommand() {
  auto options = std::make_shared<TailOptions>();
  options->lines = 10;
  Command command{.name = "tail",
                  .summary = "Print a run's rounds and events as they are written, until it ends.",
                  .example = "rivulet runs tail latest"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Option("--lines", "N", &options->lines, "earlier lines to print first [10]", {0});
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return TailRun(*options); };
  return command;
}

}  // namespace rivulet
