#include "dataflow/placement/placer.h"

#include <algorithm>
#include <optional>

#include "dataflow/placement/colocation.h"
#include "dataflow/placement/list_schedule.h"
#include "engine/base/vlog.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// A node without inputs, whose value depends on nothing; TensorFlow's placer calls it a generator.
bool IsGenerator(const Node& node) {
  return node.inputs().empty() && node.outputs().size() == 1 && node.outputs()[0].dtype != DType::kResource &&
         node.outputs()[0].dtype != DType::kVariant;
}

// Places groups instead of nodes, because nodes that share a device can only be where all of them can run. Constraints
// are applied before preferences, so that no preference violates a constraint. Each decision is recorded with its
// reason, to explain unexpected placements.
class GraphPlacer {
 public:
  GraphPlacer(const Graph& graph, const DeviceSet& devices, const PlacementOptions& options, Colocation groups)
      : graph_(graph), devices_(devices), options_(options), groups_(std::move(groups)) {}

  StatusOr<Placement> Run() {
    const size_t count = graph_.nodes().size();
    placement_.device.assign(count, -1);
    placement_.why.resize(count);
    placement_.notes = groups_.notes();
    candidates_.resize(count);
    for (const auto& node : graph_.nodes())
      if (groups_.Group(*node) == node->id()) RIVULET_RETURN_IF_ERROR(FindCandidates(node->id()));
    ApplyPins();
    std::vector<Node*> all;
    for (const auto& node : graph_.nodes()) all.push_back(node.get());
    const std::vector<Node*> order = graph_.TopologicalOrder(all);
    if (options_.costs != nullptr) Spread(order);
    std::vector<const Node*> generators;
    for (const Node* node : order) {
      if (Placed(*node)) continue;
      if (IsGenerator(*node)) {
        generators.push_back(node);
        continue;
      }
      if (!node->inputs().empty() && ReadsOnlyTheShape(*node) && Placed(*node->input(0).node) &&
          MayTake(*node, DeviceOf(*node->input(0).node))) {
        Assign(*node, DeviceOf(*node->input(0).node),
               fmt::format("with its input '{}', whose shape it reads", node->input(0).node->name()));
        continue;
      }
      AssignDefault(*node);
    }
    PlaceGenerators(generators);
    return std::move(placement_);
  }

 private:
  const Node& At(int id) const { return *graph_.nodes()[static_cast<size_t>(id)]; }
  bool Placed(const Node& node) const { return placement_.device[static_cast<size_t>(node.id())] >= 0; }
  int DeviceOf(const Node& node) const { return placement_.device[static_cast<size_t>(node.id())]; }
  std::vector<int>& Candidates(const Node& node) { return candidates_[static_cast<size_t>(groups_.Group(node))]; }
  bool MayTake(const Node& node, int device) {
    return std::ranges::find(Candidates(node), device) != Candidates(node).end();
  }

  // Devices that match `constraint` and run all members; `unable` receives a member that a matching device cannot run.
  std::vector<int> Fitting(int group, const DeviceName& constraint, bool& any_fits, const Node*& unable) const {
    std::vector<int> fitting;
    for (size_t device = 0; device < devices_.size(); ++device) {
      if (!IsSpecificationOf(constraint, devices_[device].name)) continue;
      any_fits = true;
      const auto& members = groups_.members(group);
      const auto cannot = std::ranges::find_if(members, [&](int id) { return !devices_[device].supports(At(id)); });
      if (cannot == members.end()) {
        fitting.push_back(static_cast<int>(device));
      } else if (unable == nullptr) {
        unable = &At(*cannot);
      }
    }
    return fitting;
  }

  Status FindCandidates(int group) {
    const DeviceName& constraint = groups_.constraint(group);
    bool any_fits = false;
    const Node* unable = nullptr;
    std::vector<int> fitting = Fitting(group, constraint, any_fits, unable);
    // Relaxes the kind and number of a device, never the machine: work meant for one worker must not move to another
    // because of a missing kernel.
    if (fitting.empty() && options_.soft && (constraint.type || constraint.id)) {
      DeviceName softened = constraint;
      softened.type.reset();
      softened.id.reset();
      bool soft_fits = false;
      const Node* still_unable = nullptr;
      fitting = Fitting(group, softened, soft_fits, still_unable);
      if (!fitting.empty()) {
        const Node* node = groups_.Constrained(group);
        softened_[group] = any_fits ? fmt::format("soft placement: '{}' cannot run the {} '{}'", constraint.ToString(),
                                                  unable->type(), unable->name())
                                    : fmt::format("soft placement: no device fits '{}'", constraint.ToString());
        placement_.notes.push_back(fmt::format("the constraint '{}' of '{}' gives way: {}", constraint.ToString(),
                                               node == nullptr ? At(group).name() : node->name(), softened_[group]));
      }
    }
    if (fitting.empty()) return Refuse(group, any_fits, unable);
    candidates_[static_cast<size_t>(group)] = std::move(fitting);
    return absl::OkStatus();
  }

  Status Refuse(int group, bool any_fits, const Node* unable) const {
    const DeviceName& constraint = groups_.constraint(group);
    if (!any_fits) {
      const Node* node = groups_.Constrained(group);
      if (node == nullptr) node = &At(group);
      return InvalidArgument("{} is constrained to '{}', which none of the devices {} fits; name one of these{}",
                             DescribeNode(*node), constraint.ToString(), devices_.ToString(),
                             constraint.type || constraint.id ? ", or allow soft placement" : "");
    }
    // The node that cannot run there and the node with the constraint usually differ. The error shows the chain between
    // them.
    const Node* asks = groups_.Constrained(group, unable);
    const std::string chain = asks == nullptr || asks == unable ? "" : groups_.Chain(*unable, *asks);
    return InvalidArgument(
        "{} cannot run on {}: {} has no kernel for {} there{}{}", DescribeNode(*unable),
        constraint.empty() ? fmt::format("any of the devices {}", devices_.ToString())
                           : fmt::format("'{}'", constraint.ToString()),
        constraint.empty() ? "the engine" : fmt::format("the part of {} that fits", devices_.ToString()),
        unable->type(), chain.empty() ? "" : ", and ", chain);
  }

  // A pin holds even if the constraints here would decide otherwise. Parts of a graph contain only some of a group's
  // users, whose constraints may be ignored; a variable must not move to another task because of that.
  void ApplyPins() {
    if (options_.pinned == nullptr) return;
    for (const auto& node : graph_.nodes()) {
      const auto pin = options_.pinned->find(node->name());
      if (pin == options_.pinned->end() || Placed(*node)) continue;
      for (size_t device = 0; device < devices_.size(); ++device)
        if (devices_[device].name.ToString() == pin->second && devices_[device].supports(*node))
          Assign(*node, static_cast<int>(device), "where it was placed before");
    }
  }

  // "" if no constraint applied. `asks`: a node of the group with a constraint, or nullptr.
  std::string Constraint(const Node& node, int group, const Node* asks) const {
    if (const auto soft = softened_.find(group); soft != softened_.end()) return soft->second;
    if (groups_.Constrained(node)) return fmt::format("constrained to '{}'", node.device());
    if (asks == nullptr) return "";
    return fmt::format("'{}' is constrained to '{}'{}", asks->name(), asks->device(), Because(node, *asks, group));
  }
  // In larger groups only the deciding node is explained: each chain costs a traversal.
  std::string Because(const Node& node, const Node& decided, int group) const {
    return groups_.members(group).size() > kLongGroup ? ", with which it shares a device"
                                                      : ": " + groups_.Chain(node, decided);
  }

  // Places the node's whole group.
  void Assign(const Node& node, int device, const std::string& why) {
    const int group = groups_.Group(node);
    const Node* asks = groups_.Constrained(group);
    for (int id : groups_.members(group)) {
      if (placement_.device[static_cast<size_t>(id)] >= 0) continue;
      placement_.device[static_cast<size_t>(id)] = device;
      std::string reason = Constraint(At(id), group, asks);
      if (reason.empty())
        reason = id == node.id() ? why : fmt::format("with '{}'{}", node.name(), Because(At(id), node, group));
      placement_.why[static_cast<size_t>(id)] = std::move(reason);
    }
  }
  void AssignDefault(const Node& node) {
    const bool only = Candidates(node).size() == 1 && devices_.size() > 1;
    Assign(node, Candidates(node).front(), only ? "the only device that can run it" : "default device");
  }

  void Spread(const std::vector<Node*>& order) {
    std::vector<ListScheduleNode> nodes(graph_.nodes().size());
    for (const auto& node : graph_.nodes()) {
      ListScheduleNode& entry = nodes[static_cast<size_t>(node->id())];
      entry.group = groups_.Group(*node);
      entry.candidates = &Candidates(*node);
      // Constants are placed after their users, and cost nothing.
      entry.left_out = IsGenerator(*node) && !Placed(*node) && groups_.members(entry.group).size() == 1;
      entry.device = DeviceOf(*node);
    }
    ListSchedule(order, nodes, *options_.costs, devices_.size());
    for (const Node* node : order) {
      const ListScheduleNode& entry = nodes[static_cast<size_t>(node->id())];
      if (entry.left_out || Placed(*node)) continue;
      Assign(*node, entry.device,
             fmt::format(
                 "cost model: ends after {:.1f} us here{}", entry.finish * 1e6,
                 entry.other_finish > 0 ? fmt::format(", {:.1f} us on the next best", entry.other_finish * 1e6) : ""));
    }
  }

  // Runs last, when all users are placed: a constant on its users' device need not be sent. With users on several
  // devices it is placed like any other node.
  void PlaceGenerators(const std::vector<const Node*>& generators) {
    std::vector<std::vector<const Node*>> users(graph_.nodes().size());
    for (const auto& node : graph_.nodes()) {
      for (const Output& input : node->inputs()) users[static_cast<size_t>(input.node->id())].push_back(node.get());
      for (const Node* before : node->control_inputs()) users[static_cast<size_t>(before->id())].push_back(node.get());
    }
    for (const Node* node : generators) {
      if (Placed(*node)) continue;  // with a colocated node
      const auto& mine = users[static_cast<size_t>(node->id())];
      const int device = mine.empty() ? -1 : DeviceOf(*mine.front());
      if (device >= 0 && MayTake(*node, device) &&
          std::ranges::all_of(mine, [&](const Node* user) { return DeviceOf(*user) == device; })) {
        Assign(*node, device,
               std::ranges::all_of(mine, [&](const Node* user) { return user == mine.front(); })
                   ? fmt::format("with its user '{}'", mine.front()->name())
                   : "with its users");
      } else {
        AssignDefault(*node);
      }
    }
  }

  static constexpr size_t kLongGroup = 64;

  const Graph& graph_;
  const DeviceSet& devices_;
  const PlacementOptions& options_;
  Colocation groups_;
  Placement placement_;
  std::vector<std::vector<int>> candidates_;  // by group
  std::map<int, std::string> softened_;       // group → why its constraint was relaxed
};

}  // namespace

bool ReadsOnlyTheShape(const Node& node) {
  const std::string_view type = node.type();
  return type == "Shape" || type == "ShapeN" || type == "Size" || type == "Rank";
}

StatusOr<Placement> PlaceGraph(const Graph& graph, const DeviceSet& devices, const PlacementOptions& options) {
  if (devices.size() == 0) return InvalidArgument("there is no device to place nodes on");
  RIVULET_ASSIGN_OR_RETURN(Colocation groups, Colocation::Build(graph, {options.soft}));
  StatusOr<Placement> placement = GraphPlacer(graph, devices, options, std::move(groups)).Run();
  if (placement.ok()) {
    RIVULET_VLOG(1, "placed {} nodes on {} devices", graph.nodes().size(), devices.size());
    for (const auto& node : graph.nodes()) {
      const size_t id = static_cast<size_t>(node->id());
      RIVULET_VLOG(2, "{} '{}': {}, {}", node->type(), node->name(),
                   devices[static_cast<size_t>(placement->device[id])].name.ToString(), placement->why[id]);
    }
  }
  return placement;
}

std::vector<std::string> PlacementLog(const Graph& graph, const DeviceSet& devices, const Placement& placement) {
  std::vector<std::string> lines;
  for (const auto& node : graph.nodes()) {
    const size_t id = static_cast<size_t>(node->id());
    lines.push_back(fmt::format("{}: ({}): {} -- {}", node->name(), node->type(),
                                devices[static_cast<size_t>(placement.device[id])].name.ToString(), placement.why[id]));
  }
  lines.insert(lines.end(), placement.notes.begin(), placement.notes.end());
  return lines;
}

}  // namespace rivulet
