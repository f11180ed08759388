#include "dataflow/placement/parameter_servers.h"

#include <algorithm>
#include <vector>

#include "dataflow/placement/colocation.h"
#include "engine/graph/device_name.h"
#include "engine/graph/function_call.h"

namespace rivulet {
namespace {

// Bytes of a group's variables; -1 if it has none.
StatusOr<int64_t> VariableBytes(const Graph& graph, const std::vector<int>& members, bool measure) {
  int64_t bytes = -1;
  for (const int id : members) {
    const Node& node = *graph.nodes()[static_cast<size_t>(id)];
    if (node.type() != "VarHandleOp") continue;
    bytes = std::max<int64_t>(bytes, 0);
    if (!measure) continue;
    const Shape& shape = node.attr<Shape>("shape");
    if (!shape.IsFullyKnown())
      return InvalidArgument("the variable '{}' has the shape {}; spreading by size takes known shapes", node.name(),
                             shape.ToString());
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
    bytes += elements * static_cast<int64_t>(SizeOf(node.attr<DType>("dtype")));
  }
  return bytes;
}

}  // namespace

StatusOr<Graph> OnParameterServers(const Graph& graph, const ParameterServers& servers) {
  if (servers.tasks < 1) return InvalidArgument("{} parameter servers hold no variable; give 1 or more", servers.tasks);
  RIVULET_ASSIGN_OR_RETURN(const DeviceName worker, ParseDeviceName(servers.worker));
  RIVULET_ASSIGN_OR_RETURN(const Colocation colocation, Colocation::Build(graph, {}));
  std::vector<int64_t> bytes(static_cast<size_t>(servers.tasks));
  size_t turn = 0;
  std::vector<DeviceName> devices(graph.nodes().size(), worker);
  std::vector<bool> seen(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    const int group = colocation.Group(*node);
    if (node->type() != "VarHandleOp" || seen[static_cast<size_t>(group)]) continue;
    seen[static_cast<size_t>(group)] = true;
    DeviceName device = colocation.constraint(group);
    RIVULET_ASSIGN_OR_RETURN(const int64_t size,
                             VariableBytes(graph, colocation.members(group), servers.by_size && !device.task));
    if (!device.task) {
      const auto least = std::ranges::min_element(bytes) - bytes.begin();
      const size_t task = servers.by_size ? static_cast<size_t>(least) : turn++ % bytes.size();
      bytes[task] += size;
      device = OverrideDevice(DeviceName{servers.job, {}, static_cast<int>(task), {}, {}}, device);
    }
    for (const int id : colocation.members(group)) devices[static_cast<size_t>(id)] = device;
  }

  // Random ops draw by their position in the graph, which may differ in the copy.
  const std::vector<int> random_index = RandomIndices(graph);
  Graph placed;
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(placed.AddFunction(function));
  std::vector<Node*> all, copies(graph.nodes().size());
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  for (const Node* node : graph.TopologicalOrder(all)) {
    const size_t id = static_cast<size_t>(node->id());
    RIVULET_ASSIGN_OR_RETURN(const DeviceName own, ParseDeviceName(node->device()));
    NodeSpec spec{node->name(),
                  std::string(node->type()),
                  {},
                  {},
                  node->attrs(),
                  node->source_line(),
                  OverrideDevice(devices[id], own).ToString()};
    if (random_index[id] >= 0) spec.attrs["_random_index"] = int64_t{random_index[id]};
    for (const Output& input : node->inputs())
      spec.inputs.push_back({copies[static_cast<size_t>(input.node->id())], input.port});
    for (const Node* before : node->control_inputs())
      spec.control_inputs.push_back(copies[static_cast<size_t>(before->id())]);
    RIVULET_ASSIGN_OR_RETURN(copies[id], placed.AddNode(std::move(spec)));
  }
  return placed;
}

}  // namespace rivulet
