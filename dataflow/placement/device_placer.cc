#include "dataflow/placement/device_placer.h"

#include "dataflow/placement/partition.h"
#include "engine/graph/op.h"

namespace rivulet {

StatusOr<std::shared_ptr<DevicePlacer>> DevicePlacer::Create(DevicePlacerOptions options) {
  RIVULET_ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Local(options.cpus, options.gpus));
  return Create(std::move(options), std::move(devices));
}

StatusOr<std::shared_ptr<DevicePlacer>> DevicePlacer::Create(DevicePlacerOptions options, DeviceSet devices) {
  RIVULET_ASSIGN_OR_RETURN(DeviceSet left, devices.Filter(options.device_filters));
  if (options.placement_period < 0)
    return InvalidArgument("placement_period is {}; give a number of steps, or 0 for never", options.placement_period);
  if (options.placement_period > 0 && options.place_pruned_graph)
    return InvalidArgument(
        "placement_period places the whole graph again, and place_pruned_graph never does; drop one");
  const int period = options.placement_period;
  std::shared_ptr<DevicePlacer> placer(new DevicePlacer(std::move(options), std::move(left)));
  MutexLock lock(placer->mutex_);
  placer->place_at_ = period;
  return placer;
}

void DevicePlacer::Log(const Graph& graph, const Placement& placement) const {
  if (!options_.log_device_placement) return;
  for (const std::string& line : PlacementLog(graph, devices_, placement)) options_.log_device_placement(line);
}

Status DevicePlacer::OnGraph(const Graph& graph) {
  MutexLock lock(mutex_);
  if (options_.place_pruned_graph) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const Placement placement,
                           PlaceGraph(graph, devices_, {options_.allow_soft_placement, &placed_, nullptr}));
  if (options_.placement_period > 0) graph_ = std::make_unique<const Graph>(graph.Clone());
  for (const auto& node : graph.nodes())
    placed_[node->name()] =
        devices_[static_cast<size_t>(placement.device[static_cast<size_t>(node->id())])].name.ToString();
  Log(graph, placement);
  return absl::OkStatus();
}

Status DevicePlacer::Partition(RunGraph& run) {
  std::map<std::string, std::string> pinned;
  CostModel costs;
  {
    MutexLock lock(mutex_);
    pinned = placed_;
    costs = costs_;
  }
  RIVULET_ASSIGN_OR_RETURN(const Placement placement,
                           PlaceGraph(run.graph, devices_, {options_.allow_soft_placement, &pinned, nullptr}));
  if (options_.place_pruned_graph) {
    MutexLock lock(mutex_);
    for (const auto& node : run.graph.nodes())
      if (node->op().stateful)
        placed_.emplace(
            node->name(),
            devices_[static_cast<size_t>(placement.device[static_cast<size_t>(node->id())])].name.ToString());
    Log(run.graph, placement);
  }
  const PartitionOptions options{options_.enable_bfloat16_sendrecv, options_.enable_recv_scheduling,
                                 costs.empty() ? nullptr : &costs};
  RIVULET_ASSIGN_OR_RETURN(run, PartitionRun(run, devices_, placement.device, options));
  return absl::OkStatus();
}

uint64_t DevicePlacer::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

Status DevicePlacer::AddCosts(const CostModel& costs) {
  MutexLock lock(mutex_);
  costs_.Merge(costs);
  if (place_at_ == 0 || ++added_ < place_at_ || graph_ == nullptr) return absl::OkStatus();
  place_at_ *= 2;
  added_ = 0;
  RIVULET_ASSIGN_OR_RETURN(const Placement placement,
                           PlaceGraph(*graph_, devices_, {options_.allow_soft_placement, nullptr, &costs_}));
  for (const auto& node : graph_->nodes())
    placed_[node->name()] =
        devices_[static_cast<size_t>(placement.device[static_cast<size_t>(node->id())])].name.ToString();
  ++generation_;
  Log(*graph_, placement);
  return absl::OkStatus();
}

}  // namespace rivulet
