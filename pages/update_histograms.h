// Histograms of losses, norms and staleness of a run's newest updates.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "inspect/overview.h"
#include "inspect/picture/picture.h"

namespace rivulet {

struct UpdateHistogram {
  std::string name, title;  // "norm"; "norm of an update"
  int64_t from_round = 0;   // the earliest round with counted updates
  Picture picture;
};

// Over some 5,000 updates, however many a run has. Empty: there are none.
StatusOr<std::vector<UpdateHistogram>> UpdateHistograms(History& history, const RunOverview& run);

}  // namespace rivulet
