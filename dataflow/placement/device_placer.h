// Placer that spreads a session's runs over devices: it places the graph, and partitions each run.
//
//   RIVULET_ASSIGN_OR_RETURN(auto placer, DevicePlacer::Create({.cpus = 2, .allow_soft_placement = true}));
//   SessionConfig config;
//   config.placer = placer;
//   RIVULET_ASSIGN_OR_RETURN(auto session, Session::Create(std::move(graph), config));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataflow/placement/cost_model.h"
#include "dataflow/placement/device_set.h"
#include "dataflow/placement/placer.h"
#include "dataflow/placement/run_graph.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// Fields have the names of equivalent ones in TensorFlow's ConfigProto and GraphOptions.
struct DevicePlacerOptions {
  int cpus = 1;                             // device_count {"CPU": n}
  int gpus = 0;                             // device_count {"GPU": n}; the session has the physical devices
  std::vector<std::string> device_filters;  // parts of device names; devices that match none are ignored
  bool allow_soft_placement = false;
  // Receives lines of PlacementLog when a graph is placed; null: no log.
  std::function<void(const std::string& line)> log_device_placement;
  // Places each run's part of the graph separately, so that unused nodes raise no error. Nodes with side effects stay
  // on the device of their first run. Otherwise the whole graph is placed when the session receives it.
  bool place_pruned_graph = false;
  bool enable_bfloat16_sendrecv = false;
  bool enable_recv_scheduling = false;
  // After so many AddCosts, the graph is placed again by the measured costs; the interval doubles each time. 0: costs
  // do not change the placement. Requires that the whole graph is placed.
  int placement_period = 0;
};

// Thread-safe. For a single session.
class DevicePlacer : public Placer {
 public:
  // INVALID_ARGUMENT: an invalid number of devices, filters that match none, options that exclude each other.
  static StatusOr<std::shared_ptr<DevicePlacer>> Create(DevicePlacerOptions options);
  // The same with given devices (options.cpus and options.gpus are ignored).
  static StatusOr<std::shared_ptr<DevicePlacer>> Create(DevicePlacerOptions options, DeviceSet devices);

  // Errors of PlaceGraph. A node keeps its device from an earlier graph.
  Status OnGraph(const Graph& graph) override;
  Status Partition(RunGraph& run) override;
  uint64_t generation() const override;

  // Adds the costs of one or several runs (CostObserver::model), for the schedule of receives and the placement.
  Status AddCosts(const CostModel& costs);
  const DeviceSet& devices() const { return devices_; }

 private:
  DevicePlacer(DevicePlacerOptions options, DeviceSet devices)
      : options_(std::move(options)), devices_(std::move(devices)) {}
  void Log(const Graph& graph, const Placement& placement) const;

  const DevicePlacerOptions options_;
  const DeviceSet devices_;
  mutable Mutex mutex_;
  std::map<std::string, std::string> placed_ GUARDED_BY(mutex_);  // node → device
  std::unique_ptr<const Graph> graph_ GUARDED_BY(mutex_);         // the session's last graph, if it may be placed again
  CostModel costs_ GUARDED_BY(mutex_);
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  int64_t added_ GUARDED_BY(mutex_) = 0, place_at_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
