// Pages of a history, rendered by the server: HTML, with every figure an SVG in the page. A script in each page is
// optional (script.cc). Texts of the history are data from any author and are always escaped.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet {

class LiveRun;
struct PartitionSummary;

// The address of what they link to: "/", "/run?id=RUN", "/round?run=RUN&round=5", "/client?run=RUN&client=ID",
// "/model?run=RUN", "/labels?run=RUN", "/compare?run=A&run=B", and of tables and pictures as files (downloads.h). RUN
// is a run's id, with "2/" before it of the second history that is shown.
inline constexpr char kIconPath[] = "/icon.svg", kFeedPath[] = "/feed";

struct PlacedHistory {
  std::string prefix;  // of its runs in addresses: "", "2/", …
  std::unique_ptr<History> history;
};
struct PlacedRun {
  History& history;
  std::string prefix;
  std::string run;  // as History::ResolveRun takes it
};

// Which runs a list shows, and in which order.
struct RunsQuery {
  std::string find;               // words; each is part of a name, an id, a tag or an algorithm, or is KEY=VALUE
  std::string status, algorithm;  // "": any
  std::string sort;  // a column: "run", "status", "algorithm", "rate", "seed", "best", "rounds", "took"; else "began"
  bool ascending = false;
  int64_t first = 0;  // the leaf
};
// The runs of each history: how each is told from the others, what it has reached, its curve. `live`: what goes on in
// this process, or null.
StatusOr<std::string> RunsPage(std::span<const PlacedHistory> histories, const RunsQuery& query, const LiveRun* live);
// One run: first whether it is healthy, how good, what is slow and who failed; then curves, rounds, clients, how losses
// and norms are spread, what is configured, log. Of rounds and clients one leaf each.
StatusOr<std::string> RunPage(const PlacedRun& run, int64_t first_round, int64_t first_client, LiveRun* live);
// Differences between runs and their results. Runs equal except for the seed are one line, their mean, with a band of
// one standard deviation.
StatusOr<std::string> ComparePage(std::span<const PlacedRun> runs);
// The tasks of a round: how long each client waited, trained and uploaded, and why some failed; one leaf of them.
StatusOr<std::string> RoundPage(const PlacedRun& run, int64_t round, int64_t first_task);
// Those that failed first, then the slowest: by whom the round was held up. NOT_FOUND: none is known.
StatusOr<std::vector<ClientRoundRow>> TasksOfRound(History& history, const std::string& run_id, int64_t round);
// One client in a run: whether it may take part, its tasks, newest first; one leaf of them.
StatusOr<std::string> ClientHistoryPage(const PlacedRun& run, const std::string& client, int64_t first_task);
// The versions that a run keeps: each layer's norm, change and zeros. Reads the newest twelve, half a gigabyte at most.
StatusOr<std::string> ModelPage(const PlacedRun& run);
// Labels by client, as the run's configuration deals them. NOT_FOUND: its data are not on this machine.
StatusOr<std::string> LabelsPage(const PlacedRun& run);
StatusOr<PartitionSummary> LabelsOf(History& history, const std::string& run);
// A sentence instead of a page.
std::string ErrorPage(std::string_view title, std::string_view sentence);

std::string_view StyleSheet();  // light and dark
std::string_view Script();      // of every page
std::string_view Icon();

}  // namespace rivulet
