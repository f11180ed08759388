// The sums of one attempt at a round, and the one list of their columns. The list makes columns of the table `attempt`
// and its migrations, and of the views `rounds` and `round_summary`. A new column is a member, a line of kRoundColumns,
// and the code that sets it (coordinator/ledger).
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

namespace rivulet {

struct RoundResult {
  int64_t folded = 0, refused = 0, dropped = 0, failed = 0;  // tasks by status
  int64_t examples = 0;                                      // of folded updates
  std::optional<double> train_loss;                          // mean over those examples
  int64_t bytes_down = 0, bytes_up = 0;
  double train_seconds = 0, aggregate_seconds = 0, evaluate_seconds = 0;
  // For a private run: noise over the norm bound, the sampled share of members (1: no amplification by sampling is
  // claimed), and the spend of all attempts up to this one at this delta, against readers of the models and against
  // participants.
  std::optional<double> noise_multiplier, sampling_rate, delta, epsilon, participant_epsilon;

  RoundResult& result() { return *this; }
  const RoundResult& result() const { return *this; }
};

template <typename Value>
struct RoundColumn {
  const char* name;
  Value RoundResult::*member;
  int history;  // the first version of the history that stores it
};
// For compilers without deduction guides for aggregates: clang before 17, which builds the fuzz targets.
template <typename Value>
RoundColumn(const char*, Value RoundResult::*, int) -> RoundColumn<Value>;

// In the order of the table; later versions append theirs, and these are optional.
inline constexpr auto kRoundColumns = std::tuple(
    RoundColumn{"folded", &RoundResult::folded, 1}, RoundColumn{"refused", &RoundResult::refused, 1},
    RoundColumn{"dropped", &RoundResult::dropped, 1}, RoundColumn{"failed", &RoundResult::failed, 1},
    RoundColumn{"examples", &RoundResult::examples, 1}, RoundColumn{"train_loss", &RoundResult::train_loss, 1},
    RoundColumn{"bytes_down", &RoundResult::bytes_down, 1}, RoundColumn{"bytes_up", &RoundResult::bytes_up, 1},
    RoundColumn{"train_seconds", &RoundResult::train_seconds, 1},
    RoundColumn{"aggregate_seconds", &RoundResult::aggregate_seconds, 1},
    RoundColumn{"evaluate_seconds", &RoundResult::evaluate_seconds, 1},
    RoundColumn{"noise_multiplier", &RoundResult::noise_multiplier, 5},
    RoundColumn{"sampling_rate", &RoundResult::sampling_rate, 5}, RoundColumn{"delta", &RoundResult::delta, 5},
    RoundColumn{"epsilon", &RoundResult::epsilon, 5},
    RoundColumn{"participant_epsilon", &RoundResult::participant_epsilon, 5});
// `round_summary` has its accuracy and loss after so many of them.
inline constexpr size_t kRoundColumnsBeforeMetrics = 6;

}  // namespace rivulet
