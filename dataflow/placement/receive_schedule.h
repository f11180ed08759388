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

// What is foretold of one run of a cut graph: each device runs one node at a time, in the order of a program; a receive
// takes its tensor's transfer after the later of its send and of what it waits for.
struct RunForecast {
  std::vector<double> start, finish;  // seconds, by node id
  std::map<std::string, int64_t>
      peak_bytes;  // by device: outputs of nodes, from their start to the end of their last use
  double makespan = 0;
};
RunForecast ForecastRun(const Graph& graph, const CostModel& costs);

// Adds the control edges. Each receive still ends before the first of its users starts in the forecast without them, so
// that the makespan foretold stays.
Status ScheduleReceivesLate(Graph& graph, const CostModel& costs);

}  // namespace rivulet
