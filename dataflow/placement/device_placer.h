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

// Fields are named as those of TensorFlow's ConfigProto and GraphOptions that mean the same.
struct DevicePlacerOptions {
  int cpus = 1;                             // device_count {"CPU": n}
  int gpus = 0;                             // device_count {"GPU": n}; a session has what stands behind them
  std::vector<std::string> device_filters;  // parts of device names; devices that fit none do not count
  bool allow_soft_placement = false;
  // Lines of PlacementLog go here when a graph is placed; null: nowhere.
  std::function<void(const std::string& line)> log_device_placement;
  // Each run's part of the graph is placed for itself, so that what is not run raises no error. Nodes with an effect
  // stay where their first run had them. Otherwise the whole graph is placed when the session gets it.
  bool place_pruned_graph = false;
  bool enable_bfloat16_sendrecv = false;
  bool enable_recv_scheduling = false;
  // After so many AddCosts the graph is placed again by what they told; every later time twice as many are waited for.
  // 0: costs change no placement. Needs the whole graph to be placed.
  int placement_period = 0;
};

// Thread-safe. One session's.
class DevicePlacer : public Placer {
 public:
  // INVALID_ARGUMENT: a number of devices that cannot be, filters that leave none, options that exclude one another.
  static StatusOr<std::shared_ptr<DevicePlacer>> Create(DevicePlacerOptions options);
  // The same on given devices (options.cpus and options.gpus do not count).
  static StatusOr<std::shared_ptr<DevicePlacer>> Create(DevicePlacerOptions options, DeviceSet devices);

  // Errors of PlaceGraph. A node keeps the device that an earlier graph gave it.
  Status OnGraph(const Graph& graph) override;
  Status Partition(RunGraph& run) override;
  uint64_t generation() const override;

  // What one more run, or several, cost (CostObserver::model): receives are scheduled by it, and nodes placed.
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
  std::unique_ptr<const Graph> graph_ GUARDED_BY(mutex_);         // the session's last, where it may be placed again
  CostModel costs_ GUARDED_BY(mutex_);
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  int64_t added_ GUARDED_BY(mutex_) = 0, place_at_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
