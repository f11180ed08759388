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

// Adds how the clients of round `event.step` are spread, as "clients/…": those whose attempt made it, and those that
// measured it, by the names of ClientMetricNames.
Status AddClientsTo(SummaryEvent& event, History& history, const std::string& run_id, int64_t attempt,
                    const std::vector<std::string>& metrics);

// A run's configuration for the HParams page: keys of its scenario that affect its results.
StatusOr<std::vector<std::pair<std::string, HyperParameter>>> HyperParametersOf(History& history,
                                                                                const std::string& run_id);
// The end of a run for that page; nothing for an interrupted run, which may be resumed.
std::optional<SummaryEnd> SummaryEndOf(const std::string& run_status);

// What the models say that a run keeps: of the newest twelve, half a gigabyte at most.
class ModelSummaries {
 public:
  // `most_pictures`: of the newest models only so many are run over the test set. What is not on this machine is left
  // out, and why_no_pictures() says what was missing for these. DATA_LOSS: its plan is damaged.
  static StatusOr<std::unique_ptr<ModelSummaries>> Open(History& history, const RunRow& run, size_t most_pictures);
  virtual ~ModelSummaries() = default;

  virtual std::vector<int64_t> rounds() const = 0;  // of those models, in order
  virtual const std::string& why_no_pictures() const = 0;
  virtual std::string graph_def() const = 0;  // of the model, serialised; "" where it has none
  // Adds of the model of round `event.step`, where it is one of them: "weights/NAME", "updates/NAME" (what differs from
  // the version before, where that was the last one asked for) and the picture "confusion". Ask in the order of rounds.
  virtual Status AddTo(SummaryEvent& event) = 0;
};

}  // namespace rivulet
