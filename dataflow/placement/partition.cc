#include "dataflow/placement/partition.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dataflow/placement/placer.h"
#include "dataflow/placement/receive_schedule.h"
#include "engine/graph/function.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Everything that must not change is preserved by construction: names, the order of a variable's reads and writes, and
// values known at compile time. The only new nodes are pairs of _Send and _Recv, one per tensor and destination;
// further users on the same device share the received tensor.
class Partitioner {
 public:
  Partitioner(const RunGraph& run, const DeviceSet& devices, const std::vector<int>& device,
              const PartitionOptions& options)
      : run_(run), devices_(devices), device_(device), options_(options) {}

  StatusOr<RunGraph> Run() {
    for (const auto& [name, function] : run_.graph.functions())
      RIVULET_RETURN_IF_ERROR(result_.graph.AddFunction(function));
    std::vector<Node*> all;
    for (const auto& node : run_.graph.nodes()) all.push_back(node.get());
    order_ = run_.graph.TopologicalOrder(all);
    FindCopies();
    for (const Node* node : order_)
      for (int device : copies_[Id(node)]) RIVULET_RETURN_IF_ERROR(Copy(*node, device));
    result_.feeds = run_.feeds;
    result_.fetches = run_.fetches;
    result_.targets = run_.targets;
    for (const Node* send : sends_) result_.targets.push_back(send->name());
    if (!sends_.empty()) RIVULET_RETURN_IF_ERROR(OrderVariables());
    if (options_.late_receives) {
      static const CostModel kEqualCosts;
      RIVULET_RETURN_IF_ERROR(
          ScheduleReceivesLate(result_.graph, options_.costs == nullptr ? kEqualCosts : *options_.costs));
    }
    return std::move(result_);
  }

 private:
  // Limit above which control inputs are not copied to users: the lists would grow with the square of the graph.
  static constexpr size_t kMaxInherited = 256;

  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }
  int DeviceOf(const Node* node) const { return device_[Id(node)]; }
  std::string DeviceName(int device) const { return devices_[static_cast<size_t>(device)].name.ToString(); }

  // Finds the devices on which each node exists: its own, or for nodes that depend on shapes alone, those of its users.
  // A sent shape would arrive too late, after the receiving program was compiled. It is cheaper and safer to compute it
  // on each device from the tensor, which is there or is sent anyway.
  void FindCopies() {
    const size_t count = run_.graph.nodes().size();
    anywhere_.resize(count);
    copies_.resize(count);
    std::vector<bool> wanted(count);  // fetched by name
    for (const std::string& name : run_.fetches)
      if (const StatusOr<Output> output = run_.graph.FindOutput(name); output.ok()) wanted[Id(output->node)] = true;
    for (const std::string& name : run_.targets)
      if (const Node* node = run_.graph.Find(name); node != nullptr) wanted[Id(node)] = true;
    inherited_.resize(count);
    const bool one_device = std::ranges::all_of(device_, [&](int device) { return device == device_.front(); });
    for (const Node* node : order_) {
      FindInherited(*node);
      anywhere_[Id(node)] = !one_device && FollowsFromShapes(*node) && inherited_[Id(node)].size() <= kMaxInherited &&
                            !(wanted[Id(node)] && !node->control_inputs().empty());
      if (!anywhere_[Id(node)] || wanted[Id(node)]) copies_[Id(node)].insert(DeviceOf(node));
    }
    // Users first, because a copied node's inputs need copies on the same devices.
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node* node = *it;
      // Without users elsewhere it stays on its own device.
      if (copies_[Id(node)].empty()) copies_[Id(node)].insert(DeviceOf(node));
      for (const Output& input : node->inputs())
        if (anywhere_[Id(input.node)])
          copies_[Id(input.node)].insert(copies_[Id(node)].begin(), copies_[Id(node)].end());
    }
  }

  // Collects a node's control dependencies besides its data inputs. Nodes that depend on shapes alone do not wait
  // themselves, or their values would be unknown at compile time: their users wait instead.
  void FindInherited(const Node& node) {
    std::vector<const Node*>& mine = inherited_[Id(&node)];
    const auto add = [&](const Node* before) {
      if (std::ranges::find(mine, before) == mine.end()) mine.push_back(before);
    };
    const auto pass_on = [&](const Node* through) {
      if (anywhere_[Id(through)])
        for (const Node* before : inherited_[Id(through)]) add(before);
    };
    for (const Node* before : node.control_inputs()) {
      if (!anywhere_[Id(before)]) add(before);
      pass_on(before);
    }
    for (const Output& input : node.inputs()) pass_on(input.node);
  }

  bool FollowsFromShapes(const Node& node) const {
    if (node.op().stateful || node.outputs().empty()) return false;
    if (node.type() == "Const" || ReadsOnlyTheShape(node)) return true;
    return !node.inputs().empty() &&
           std::ranges::all_of(node.inputs(), [&](const Output& input) { return anywhere_[Id(input.node)]; });
  }

  std::string Fresh(const std::string& base) {
    std::string name;
    do {
      name = fmt::format("{}/_{}", base, next_++);
    } while (run_.graph.Find(name) != nullptr || result_.graph.Find(name) != nullptr);
    return name;
  }

  StatusOr<Node*> Add(std::string name, std::string_view op, std::vector<Output> inputs, std::vector<Node*> control,
                      AttrMap attrs, const Node& origin, int device) {
    return result_.graph.AddNode({std::move(name), std::string(op), std::move(inputs), std::move(control),
                                  std::move(attrs), origin.source_line(), DeviceName(device)});
  }

  Status Copy(const Node& node, int device) {
    std::vector<Output> inputs;
    std::vector<Node*> control;
    for (const Output& input : node.inputs()) {
      RIVULET_ASSIGN_OR_RETURN(const Output here, Here(input, device));
      inputs.push_back(here);
    }
    if (!anywhere_[Id(&node)]) {
      for (const Node* before : inherited_[Id(&node)]) {
        RIVULET_ASSIGN_OR_RETURN(Node * here, ControlHere(*before, device));
        if (std::ranges::find(control, here) == control.end()) control.push_back(here);
      }
    }
    // One of the copies keeps the name, for feeds, fetches and errors; the node's own device has priority.
    const bool original = device == DeviceOf(&node) ||
                          (!copies_[Id(&node)].contains(DeviceOf(&node)) && device == *copies_[Id(&node)].begin());
    RIVULET_ASSIGN_OR_RETURN(Node * made, Add(original ? node.name() : Fresh(node.name()), node.type(),
                                              std::move(inputs), std::move(control), node.attrs(), node, device));
    made_[{node.id(), device}] = made;
    return absl::OkStatus();
  }

  // The tensor, or its received copy, on `device`.
  StatusOr<Output> Here(const Output& output, int device) {
    if (const auto made = made_.find({output.node->id(), device}); made != made_.end())
      return made->second->output(output.port);
    if (output.dtype() == DType::kResource || output.dtype() == DType::kVariant)
      return Internal("'{}' is {} and cannot be sent from {} to {}", output.name(), Name(output.dtype()),
                      DeviceName(DeviceOf(output.node)), DeviceName(device));
    Output& received = received_[{output.node->id(), output.port, device}];
    if (!received) {
      RIVULET_ASSIGN_OR_RETURN(
          received, Transfer(made_.at({output.node->id(), DeviceOf(output.node)})->output(output.port), *output.node,
                             DeviceOf(output.node), device));
    }
    return received;
  }

  // A node of `device` that runs after `before`. If a tensor of `before` is already received there, its receive is such
  // a node, and nothing more is sent.
  StatusOr<Node*> ControlHere(const Node& before, int device) {
    if (const auto made = made_.find({before.id(), device}); made != made_.end()) return made->second;
    for (size_t port = 0; port < before.outputs().size(); ++port)
      if (const auto sent = received_.find({before.id(), static_cast<int>(port), device}); sent != received_.end())
        return sent->second.node;
    Output& received = received_[{before.id(), -1, device}];
    if (!received) {
      const int from = DeviceOf(&before);
      RIVULET_ASSIGN_OR_RETURN(
          Node * dummy, Add(Fresh(before.name()), "Const", {}, {made_.at({before.id(), from})},
                            {{"value", Tensor(DType::kFloat32, Shape{0})}, {"dtype", DType::kFloat32}}, before, from));
      RIVULET_ASSIGN_OR_RETURN(received, Transfer(dummy->output(), before, from, device));
    }
    return received.node;
  }

  StatusOr<Output> Transfer(Output value, const Node& origin, int from, int to) {
    const DType dtype = value.dtype();
    // Constants are exempt: they are sent only as control dependencies, and rounding would not help.
    const bool narrow = options_.bfloat16_transfers && dtype == DType::kFloat32 && value.node->type() != "Const";
    const Shape shape = value.shape();
    if (narrow) {
      Output& cast = narrowed_[{value.node->id(), value.port}];
      if (!cast) {
        RIVULET_ASSIGN_OR_RETURN(
            Node * made, Add(Fresh(origin.name()), "Cast", {value}, {}, {{"DstT", DType::kBFloat16}}, origin, from));
        cast = made->output();
      }
      value = cast;
    }
    AttrMap attrs = {{"tensor_name", fmt::format("edge_{}_{}", ++edges_, origin.name())},
                     {"send_device", DeviceName(from)},
                     {"send_device_incarnation", static_cast<int64_t>(devices_[static_cast<size_t>(from)].incarnation)},
                     {"recv_device", DeviceName(to)},
                     {"client_terminated", false}};
    RIVULET_ASSIGN_OR_RETURN(Node * send, Add(Fresh(origin.name()), "_Send", {value}, {}, attrs, origin, from));
    sends_.push_back(send);
    attrs["tensor_type"] = value.dtype();
    attrs["_output_shapes"] = std::vector<Shape>{shape};
    RIVULET_ASSIGN_OR_RETURN(Node * recv, Add(Fresh(origin.name()), "_Recv", {}, {}, std::move(attrs), origin, to));
    if (!narrow) return recv->output();
    RIVULET_ASSIGN_OR_RETURN(Node * widened,
                             Add(Fresh(origin.name()), "Cast", {recv->output()}, {}, {{"DstT", dtype}}, origin, to));
    return widened->output();
  }

  // Orders each write of a variable after earlier reads and writes, and each read after the last write. In one program
  // the positions of nodes give this order. After the cut, a receive may separate two accesses, and its part starts
  // whenever its tensor arrives; then only edges keep the order. They suffice on one device, which has all accesses of
  // a variable.
  Status OrderVariables() {
    struct Accesses {
      Node* write = nullptr;
      std::vector<Node*> reads;
    };
    std::map<std::string, Accesses> variables;
    for (const Node* node : order_) {
      for (const Output& input : node->inputs()) {
        if (input.dtype() != DType::kResource) continue;
        const Node* handle = input.node;
        while (StructuralKind(handle->type()) == StructuralOp::kView) handle = handle->input(0).node;
        if (handle->type() != "VarHandleOp" || StructuralKind(node->type()) == StructuralOp::kView) continue;
        Accesses& accesses = variables[std::string(VariableName(*handle))];
        Node* mine = made_.at({node->id(), DeviceOf(node)});
        if (accesses.write != nullptr && accesses.write != mine)
          RIVULET_RETURN_IF_ERROR(result_.graph.AddControlInput(mine, accesses.write));
        if (OnlyReadsVariables(node->type())) {
          accesses.reads.push_back(mine);
          continue;
        }
        for (Node* read : accesses.reads)
          if (read != mine) RIVULET_RETURN_IF_ERROR(result_.graph.AddControlInput(mine, read));
        accesses.reads.clear();
        accesses.write = mine;
      }
    }
    return absl::OkStatus();
  }

  const RunGraph& run_;
  const DeviceSet& devices_;
  const std::vector<int>& device_;
  const PartitionOptions& options_;
  RunGraph result_;
  std::vector<Node*> order_;
  std::vector<bool> anywhere_;
  std::vector<std::vector<const Node*>> inherited_;       // by node id
  std::vector<std::set<int>> copies_;                     // by node id
  std::map<std::pair<int, int>, Node*> made_;             // (node id, device)
  std::map<std::tuple<int, int, int>, Output> received_;  // (node id, port or -1, device)
  std::map<std::pair<int, int>, Output> narrowed_;        // (id in the result, port)
  std::vector<Node*> sends_;
  int next_ = 0, edges_ = 0;
};

}  // namespace

StatusOr<RunGraph> PartitionRun(const RunGraph& run, const DeviceSet& devices, const std::vector<int>& device,
                                const PartitionOptions& options) {
  return Partitioner(run, devices, device, options).Run();
}

StatusOr<std::vector<std::pair<std::string, Graph>>> SplitByDevice(const Graph& graph) {
  std::map<std::string, Graph> parts;
  std::vector<Node*> all;
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  std::vector<Node*> copies(all.size());
  for (const Node* node : graph.TopologicalOrder(all)) {
    const auto [part, added] = parts.try_emplace(node->device());
    if (added)
      for (const auto& [name, function] : graph.functions())
        RIVULET_RETURN_IF_ERROR(part->second.AddFunction(function));
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    const auto mine = [&](const Node* input) -> StatusOr<Node*> {
      if (input->device() != node->device())
        return InvalidArgument("'{}' on '{}' takes an input from '{}' on '{}'; the graph is not cut", node->name(),
                               node->device(), input->name(), input->device());
      return copies[static_cast<size_t>(input->id())];
    };
    for (const Output& input : node->inputs()) {
      RIVULET_ASSIGN_OR_RETURN(Node * here, mine(input.node));
      spec.inputs.push_back({here, input.port});
    }
    for (const Node* before : node->control_inputs()) {
      RIVULET_ASSIGN_OR_RETURN(Node * here, mine(before));
      spec.control_inputs.push_back(here);
    }
    RIVULET_ASSIGN_OR_RETURN(copies[static_cast<size_t>(node->id())], part->second.AddNode(std::move(spec)));
  }
  std::vector<std::pair<std::string, Graph>> split;
  for (auto& [device, part] : parts) split.emplace_back(device, std::move(part));
  return split;
}

}  // namespace rivulet
