// Start times of receives ("TensorFlow: Large-scale machine learning on heterogeneous distributed systems", 2015,
// §5.2). A tensor received long before its use occupies memory meanwhile; one received too late delays the critical
// path. So each receive waits, by a control edge, for the node that the costs predict to run on its device just before
// its first consumer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Forecast of one run of a cut graph. Each device runs one node at a time, in the order of a program. A receive
// transfers its tensor after its send, and after its control inputs.
struct RunForecast {
  std::vector<double> start, finish;  // seconds, by node id
  std::map<std::string, int64_t>
      peak_bytes;  // by device: sum of outputs, each from its node's start to the end of its last use
  double makespan = 0;
};
RunForecast ForecastRun(const Graph& graph, const CostModel& costs);

// Adds the control edges. In the forecast without them, each receive still ends before its first user starts, so the
// predicted makespan is unchanged.
Status ScheduleReceivesLate(Graph& graph, const CostModel& costs);

}  // namespace rivulet
