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

// Addresses of the pages: "/", "/run?id=RUN", "/round?run=RUN&round=5", "/client?run=RUN&client=ID", "/model?run=RUN",
// "/labels?run=RUN", "/compare?run=A&run=B", and those of tables and pictures as files (downloads.h). RUN is a run's
// id, with the prefix "2/" for the second shown history.
inline constexpr char kIconPath[] = "/icon.svg", kFeedPath[] = "/feed";

struct PlacedHistory {
  std::string prefix;  // of its runs in addresses: "", "2/", …
  std::unique_ptr<History> history;
};
struct PlacedRun {
  History& history;
  std::string prefix;
  std::string run;  // as in History::ResolveRun
};

// Filter and order of a list of runs.
struct RunsQuery {
  std::string find;               // words; each is part of a name, an id, a tag or an algorithm, or is KEY=VALUE
  std::string status, algorithm;  // "": any
  std::string sort;  // a column: "run", "status", "algorithm", "rate", "seed", "best", "rounds", "took"; else "began"
  bool ascending = false;
  int64_t first = 0;  // first row of the shown page
};
// The runs of each history: distinguishing keys, results, curve. `live`: the running run of this process, or
// null.
StatusOr<std::string> RunsPage(std::span<const PlacedHistory> histories, const RunsQuery& query, const LiveRun* live);
// One run: first its health, quality, slowest parts and failing clients; then curves, rounds, clients, distributions of
// losses and norms, configuration, log. Rounds and clients are paged.
StatusOr<std::string> RunPage(const PlacedRun& run, int64_t first_round, int64_t first_client, LiveRun* live);
// Differences between runs and their results. Runs equal except for the seed are one line, their mean, with a band of
// one standard deviation.
StatusOr<std::string> ComparePage(std::span<const PlacedRun> runs);
// The tasks of a round: each client's times of waiting, training and upload, and reasons of failures; paged.
StatusOr<std::string> RoundPage(const PlacedRun& run, int64_t round, int64_t first_task);
// Failed tasks first, then the slowest: those that delayed the round. NOT_FOUND: none is known.
StatusOr<std::vector<ClientRoundRow>> TasksOfRound(History& history, const std::string& run_id, int64_t round);
// One client in a run: its admission and its tasks, newest first; paged.
StatusOr<std::string> ClientHistoryPage(const PlacedRun& run, const std::string& client, int64_t first_task);
// The stored versions of a run: each layer's norm, change and zeros. Reads the newest twelve, half a gigabyte at most.
StatusOr<std::string> ModelPage(const PlacedRun& run);
// Labels by client, by the run's configuration. NOT_FOUND: its data are not on this machine.
StatusOr<std::string> LabelsPage(const PlacedRun& run);
StatusOr<PartitionSummary> LabelsOf(History& history, const std::string& run);
// A sentence instead of a page.
std::string ErrorPage(std::string_view title, std::string_view sentence);

std::string_view StyleSheet();  // light and dark
std::string_view Script();      // of every page
std::string_view Icon();

}  // namespace rivulet
