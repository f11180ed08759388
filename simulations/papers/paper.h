// A paper's numbers beside ours: simulations/papers/NAME.toml is the scenario, NAME.expected.json has the published
// numbers and the bounds that ours must meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// The measure of a run's metric.
enum class PaperMeasure {
  kRounds,  // to the target: of the best value so far, interpolated between rounds (McMahan et al. 2017, section 3)
  kVirtualSeconds,  // the same by the clock of the scenario's devices
  kLast,            // the last round's value
  kBest,            // the best round's value
};

// One number of the paper.
struct PaperResult {
  std::string name;
  std::vector<std::string> sets;   // KEY=VALUE, in addition to the scenario's
  std::vector<std::string> grids;  // as in `rivulet sweep --grid`: the best point counts, as in the paper's tuning
  PaperMeasure measure = PaperMeasure::kLast;
  double target = 0;  // of kRounds and kVirtualSeconds
  bool to_target() const { return measure == PaperMeasure::kRounds || measure == PaperMeasure::kVirtualSeconds; }
  int64_t rounds = 0, quick_rounds = 1;  // at most: a run ends at its target
  std::optional<double> published;
  std::string plain_loop;  // result of a plain PyTorch loop for comparison, in words; "": it was not run
  // Bounds of the result. A run that never reaches the target is above every bound; a failed one is below every bound
  // of a value.
  std::optional<double> at_least, at_most;
  // The same relative to the value of an earlier result of this paper: times × it + by.
  struct Beside {
    std::string of;
    double by = 0, times = 1;
  };
  std::optional<Beside> at_least_beside, at_most_beside;
};

struct Paper {
  std::string name, about, scenario;  // the file of the scenario
  std::string source;                 // of the published numbers
  std::string metric;
  int64_t seeds = 1;
  std::vector<PaperResult> results;
};

// The shipped papers, in byte order of their names. Errors are those of their files.
StatusOr<std::vector<Paper>> ShippedPapers();
// `text` of NAME.expected.json. INVALID_ARGUMENT: an unknown key, or a value out of range.
StatusOr<Paper> ParsePaper(const std::string& name, const std::string& text);

}  // namespace rivulet
