// The pages of a history, made by the server whole: HTML, every figure an SVG in the page. Only the page of a run that
// goes on in the server's own process has a script, which puts what the feed sends in its places. Texts of the history
// are data and come out escaped, whoever wrote them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet {

class LiveRun;

// The address of what they link to: "/", "/run?id=RUN", "/round?run=RUN&round=5", "/client?run=RUN&client=ID",
// "/model?run=RUN", "/labels?run=RUN", "/compare?run=A&run=B", RUN being a run's id, with "2/" before it of the second
// history that is shown.
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

// Every run of each history, newest first, from place `first` of each on. `live`: what goes on in this process, or
// null.
StatusOr<std::string> RunsPage(std::span<const PlacedHistory> histories, int64_t first, const LiveRun* live);
// One run: curves, rounds, clients, how losses and norms are spread, what is configured, log. Of rounds and clients one
// leaf each.
StatusOr<std::string> RunPage(const PlacedRun& run, int64_t first_round, int64_t first_client, LiveRun* live);
// What differed between runs, their curves on one axis.
StatusOr<std::string> ComparePage(std::span<const PlacedRun> runs);
// Who waited, trained, uploaded or came to nothing in a round, and why; one leaf of them.
StatusOr<std::string> RoundPage(const PlacedRun& run, int64_t round, int64_t first_task);
// One client's tasks in a run, newest first; one leaf of them.
StatusOr<std::string> ClientHistoryPage(const PlacedRun& run, const std::string& client, int64_t first_task);
// The versions that a run keeps: each layer's norm, change and zeros. Reads the newest twelve, half a gigabyte at most.
StatusOr<std::string> ModelPage(const PlacedRun& run);
// Labels by client, as the run's configuration deals them. NOT_FOUND: its data are not on this machine.
StatusOr<std::string> LabelsPage(const PlacedRun& run);
// A sentence instead of a page.
std::string ErrorPage(std::string_view title, std::string_view sentence);

std::string_view StyleSheet();  // light and dark
std::string_view Script();
std::string_view Icon();

}  // namespace rivulet
