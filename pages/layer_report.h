// Report on a run's stored models, layer by layer and from round to round.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "inspect/picture/chart.h"

namespace rivulet {

struct LayerRow {
  std::string tensor, shape;               // name; type and shape
  double norm = 0, change = 0, zeros = 0;  // of its values; of the difference from the previous version; a share
};

struct LayerReport {
  std::string run_id;
  std::vector<int64_t> rounds;  // of the versions that were read, in order
  int64_t parameters = 0, bytes = 0;
  std::vector<LayerRow> layers;  // of the newest
  Chart norms, changes;          // of the first layers, as many as there are colours
};

// Reads the newest twelve versions, half a gigabyte at most. NOT_FOUND: the history has no stored ones.
StatusOr<LayerReport> LoadLayerReport(History& history, const std::string& run);

}  // namespace rivulet
