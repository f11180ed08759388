#include "pages/update_histograms.h"

#include <algorithm>

#include "inspect/picture/histogram.h"
#include "pages/task_table.h"

namespace rivulet {
namespace {

constexpr int64_t kUpdatesRead = 5'000;
constexpr std::pair<const char*, const char*> kUpdateColumns[] = {{"train_loss", "train loss of an update"},
                                                                  {"update_norm", "norm of an update"},
                                                                  {"staleness", "staleness of an update"}};

}  // namespace

StatusOr<std::vector<UpdateHistogram>> UpdateHistograms(History& history, const RunOverview& run) {
  std::vector<UpdateHistogram> histograms;
  int64_t from = 0, updates = 0;
  for (auto round = run.attempts.rbegin(); round != run.attempts.rend() && updates < kUpdatesRead; ++round) {
    updates += round->folded;
    from = round->round;
  }
  if (updates == 0) return histograms;
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer,
                           history.Ask("SELECT train_loss, update_norm, staleness FROM client_rounds WHERE run_id = ? "
                                       "AND round >= ? AND kind = 'train' AND status = 'folded'",
                                       {run.run.run_id, from}));
  RIVULET_ASSIGN_OR_RETURN(const bool in_clips, NormsAreInClips(history, run.run.run_id));
  for (size_t column = 0; column < std::size(kUpdateColumns); ++column) {
    std::vector<double> values;
    for (const auto& row : answer.rows) {
      if (const auto* real = std::get_if<double>(&row[column])) values.push_back(*real);
      if (const auto* whole = std::get_if<int64_t>(&row[column])) values.push_back(static_cast<double>(*whole));
    }
    const auto& [name, usual] = kUpdateColumns[column];
    const char* const title =
        in_clips && name == std::string_view("update_norm") ? "norm of an update, in clips" : usual;
    // A single value, or equal ones, give no histogram.
    if (values.size() < 2 || std::ranges::all_of(values, [&](double value) { return value == values.front(); }))
      continue;
    histograms.push_back({name, title, from, HistogramPicture(title, values)});
  }
  return histograms;
}

}  // namespace rivulet
