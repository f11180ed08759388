// TensorBoard form of a run: one table of tags, for `runs export --tensorboard` and for `--logdir`
// (docs/reference/history.md lists them).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/history/history.h"
#include "engine/data/event_file.h"

namespace rivulet {

// The scalars "train/loss" and "round/…" of a committed round; without a time.
SummaryEvent SummaryOf(const RoundRow& round);
SummaryEvent SummaryOf(const RoundReport& round);

// Adds the distributions over clients of round `event.step`, as "clients/…": of the clients of the attempt that made
// it, and of those that measured it, under the names of ClientMetricNames.
Status AddClientsTo(SummaryEvent& event, History& history, const std::string& run_id, int64_t attempt,
                    const std::vector<std::string>& metrics);

// A run's configuration for the HParams page: keys of its scenario that affect its results.
StatusOr<std::vector<std::pair<std::string, HyperParameter>>> HyperParametersOf(History& history,
                                                                                const std::string& run_id);
// The end of a run for that page; nullopt for an interrupted run, which may be resumed.
std::optional<SummaryEnd> SummaryEndOf(const std::string& run_status);

// Summaries of a run's stored models: of the newest twelve, half a gigabyte at most.
class ModelSummaries {
 public:
  // `most_pictures`: the number of newest models that are run over the test set. Missing files mean missing pictures,
  // and why_no_pictures() gives the reason. DATA_LOSS: its plan is damaged.
  static StatusOr<std::unique_ptr<ModelSummaries>> Open(History& history, const RunRow& run, size_t most_pictures);
  virtual ~ModelSummaries() = default;

  virtual std::vector<int64_t> rounds() const = 0;  // of those models, in order
  virtual const std::string& why_no_pictures() const = 0;
  virtual std::string graph_def() const = 0;  // of the model, serialised; "" if it has none
  // Adds the model of round `event.step`, if stored: "weights/NAME", "updates/NAME" (the difference from the version
  // before, if that was the last call's) and the picture "confusion". Call it in the order of rounds.
  virtual Status AddTo(SummaryEvent& event) = 0;
};

}  // namespace rivulet
