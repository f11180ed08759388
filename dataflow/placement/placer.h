// Assignment of a device to every node of a graph, in the manner of TensorFlow's placer:
//
//   1. A node's requested device (perhaps partial) is merged with those of all nodes that must share a device with
//      it (dataflow/placement/colocation.h). Of the matching devices, those remain that can run all of them.
//   2. Soft placement relaxes a constraint that matches no device, or only devices that cannot run the node: it drops
//      the type and number, never the job, replica or task.
//   3. A node that only needs the shape of another's value (Shape, Size, Rank) goes to the device of that value. A
//      node without inputs (Const, Placeholder, unshared VarHandleOp) goes to its users if they are all on one device.
//      Other nodes go to the first device in the set's order, or, with a cost model, to the one with the earliest
//      estimated finish.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "dataflow/placement/device_set.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

struct PlacementOptions {
  bool soft = false;  // allow_soft_placement
  // Nodes that already have a device: name → canonical device name. They stay there, with all colocated nodes.
  const std::map<std::string, std::string>* pinned = nullptr;
  // Distributes unconstrained nodes over the devices (HEFT: Topcuoglu, Hariri & Wu, 2002): nodes in decreasing order of
  // their longest path to the end, each to the device where it finishes first, including transfers. The same model
  // gives the same placement.
  const CostModel* costs = nullptr;
};

struct Placement {
  std::vector<int> device;         // by node id: index into the device set
  std::vector<std::string> why;    // by node id
  std::vector<std::string> notes;  // ignored or relaxed constraints
};

// INVALID_ARGUMENT: an invalid device name, colocated nodes with clashing constraints (with the chain that joins them),
// a constraint that no device matches, an op that no matching device can run. Each error names the node, its constraint
// and the available devices.
StatusOr<Placement> PlaceGraph(const Graph& graph, const DeviceSet& devices, const PlacementOptions& options = {});

// log_device_placement: a line per node, in order of creation, "name: (Op): /job:…/device:CPU:0 -- reason"; then notes.
std::vector<std::string> PlacementLog(const Graph& graph, const DeviceSet& devices, const Placement& placement);

// Returns true if the op uses only the shape of its input.
bool ReadsOnlyTheShape(const Node& node);

}  // namespace rivulet
