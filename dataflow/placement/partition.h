// Partitioner of a placed graph at the edges between devices.
//
// A tensor used on another device gets one _Send on its device and one _Recv there, for any number of consumers. A
// control edge is represented by an empty constant. Constants and values that depend on shapes alone are copied to
// their consumers instead of sent, so that they are known when programs are compiled. Instead of a shape, its tensor is
// then sent. Existing nodes keep their names; new ones are called "<node>/_<number>", as in TensorFlow.
//
// All reads and writes of one variable are on its device. Control edges keep them in the order of the unpartitioned
// graph's program, so the partitioned graph computes the same bits.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "dataflow/placement/device_set.h"
#include "dataflow/placement/run_graph.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct PartitionOptions {
  // enable_bfloat16_sendrecv: float32 tensors are rounded to bfloat16 before sending, and widened on arrival.
  bool bfloat16_transfers = false;
  // enable_recv_scheduling: see dataflow/placement/receive_schedule.h, with these costs (null: equal costs).
  bool late_receives = false;
  const CostModel* costs = nullptr;
};

// `device`: index into `devices` by node id of run.graph. In the result every node has a full device name, no edge
// joins two devices, and sends are targets. INTERNAL: a handle or variant would have to be sent (the placer prevents
// this).
StatusOr<RunGraph> PartitionRun(const RunGraph& run, const DeviceSet& devices, const std::vector<int>& device,
                                const PartitionOptions& options = {});

// Splits a graph into the graphs of its devices, by name; no edge may join two devices.
StatusOr<std::vector<std::pair<std::string, Graph>>> SplitByDevice(const Graph& graph);

}  // namespace rivulet
