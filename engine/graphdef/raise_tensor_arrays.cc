#include <algorithm>
#include <utility>

#include "engine/graphdef/array_raiser.h"
#include "engine/graphdef/raise_control_flow.h"

namespace rivulet {

const std::map<std::string_view, ArrayOp>& ArrayRaiser::ArrayOps() {
  static const std::map<std::string_view, ArrayOp> ops = {
      {"TensorArrayReadV3", {"TensorListGetItem", {2, 1}, 2, false}},
      {"TensorArrayGatherV3", {"TensorListGather", {2, 1}, 2, false}},
      {"TensorArrayConcatV3", {"TensorListConcatV2", {1}, 1, false}},
      {"TensorArraySizeV3", {"TensorListLength", {1}, 1, false}},
      {"TensorArrayWriteV3", {"TensorListSetItem", {3, 1, 2}, 3, true}},
      {"TensorArrayScatterV3", {"TensorListScatterIntoExistingList", {3, 2, 1}, 3, true}},
      {"TensorArraySplitV3", {"TensorListSplit", {1}, 3, true}},
  };
  return ops;
}

bool ArrayRaiser::PassesOn(std::string_view op) {
  return op == "Identity" || op == "Enter" || op == "Exit" || op == "NextIteration" || op == "Switch" ||
         op == "Merge" || op == "RefEnter" || op == "RefSwitch" || op == "RefMerge" || op == "RefExit" ||
         op == "RefNextIteration";
}

// Sums of flows: where gradients of an array meet.
bool ArrayRaiser::IsSum(std::string_view op) { return op == "AddN" || op == "AddV2" || op == "Add"; }

Status ArrayRaiser::Run() {
  bool any = false;
  for (int i = 0; i < graph_.node_size(); ++i) {
    const proto::NodeDef& node = graph_.node(i);
    index_.emplace(node.name(), i);
    any = any || node.op().starts_with("TensorArray");
  }
  if (!any) return absl::OkStatus();
  FindGradients();
  FindFlows();
  RIVULET_RETURN_IF_ERROR(RaiseGradientFlows());
  const int count = graph_.node_size();
  for (int i = 0; i < count; ++i) RIVULET_RETURN_IF_ERROR(Raise(i));
  for (proto::NodeDef& node : added_) *graph_.add_node() = std::move(node);
  // The list takes the place of the flow, output 1 of its maker; nothing uses the handle any more.
  for (proto::NodeDef& node : *graph_.mutable_node())
    for (std::string& input : *node.mutable_input()) {
      int port = 0;
      const std::string producer = Producer(input, &port);
      if (port == 1 && makers_.contains(producer)) input = producer;
    }
  return absl::OkStatus();
}

// The nodes that take `name`, where that may be a flow.
std::span<const int> ArrayRaiser::UsersOf(const std::string& name) const {
  const auto users = users_.find(name);
  return users == users_.end() ? std::span<const int>() : users->second;
}

bool ArrayRaiser::IsFlow(const std::string& name) const {
  if (flows_.contains(name)) return true;
  const auto found = index_.find(name);
  if (found == index_.end() || found->second < 0) return false;
  const auto op = ArrayOps().find(graph_.node(found->second).op());
  return op != ArrayOps().end() && op->second.makes_flow;
}

bool ArrayRaiser::IsDynamic(const proto::NodeDef& maker) {
  const auto found = maker.attr().find("dynamic_size");
  return found != maker.attr().end() && found->second.b();
}

proto::AttrValue ArrayRaiser::DTypeOf(const proto::NodeDef& maker) {
  const auto found = maker.attr().find("dtype");
  return found == maker.attr().end() ? proto::AttrValue() : found->second;
}

// A loop's gradient may keep the flow of each turn on a stack, which is one of lists then. The pops from it.
std::vector<std::string> ArrayRaiser::RaiseStackOfFlows(proto::NodeDef& push) {
  const std::string stack = StackOf(push);
  std::vector<std::string> pops;
  (*push.mutable_attr())["T"].set_type(proto::DT_VARIANT);
  for (proto::NodeDef& node : *graph_.mutable_node()) {
    const bool pop = node.op() == "StackPop" || node.op() == "StackPopV2";
    if (node.name() != stack && !(pop && StackOf(node) == stack)) continue;
    (*node.mutable_attr())["elem_type"].set_type(proto::DT_VARIANT);
    if (pop) pops.push_back(node.name());
  }
  pops_of_[push.name()] = pops;
  return pops;
}

std::string ArrayRaiser::StackOf(const proto::NodeDef& use) const {
  std::string at = use.input_size() > 0 ? Producer(use.input(0)) : "";
  for (int steps = 0; steps < graph_.node_size(); ++steps) {
    const auto found = index_.find(at);
    if (found == index_.end() || found->second < 0) return "";
    const proto::NodeDef& node = graph_.node(found->second);
    if (!PassesOn(node.op()) || node.input_size() == 0) return at;
    at = Producer(node.input(0));
  }
  return "";
}

std::string ArrayRaiser::Producer(const std::string& input, int* port) {
  const StatusOr<InputRef> ref = ParseInputRef(input);
  if (!ref.ok() || ref->control) return "";
  if (port != nullptr) *port = ref->port;
  return std::string(ref->node);
}

// Nodes that hand a flow on hold a list instead of a number.
// The type of Switch, Merge and their like was that of the flow, float, and is the list's now. Runs to a fixed point,
// since loops carry the flow round.
void ArrayRaiser::FindFlows() {
  std::map<std::string, std::vector<int>>& users = users_;
  std::vector<std::string> work;
  for (int i = 0; i < graph_.node_size(); ++i) {
    const proto::NodeDef& node = graph_.node(i);
    for (const std::string& input : node.input()) {
      int port = 0;
      const std::string producer = Producer(input, &port);
      if (producer.empty()) continue;
      const auto found = index_.find(producer);
      // Of a TensorArrayV3 the second output is the flow.
      if (found != index_.end() && graph_.node(found->second).op() == "TensorArrayV3" && port != 1) continue;
      users[producer].push_back(i);
    }
    const auto op = ArrayOps().find(node.op());
    if (node.op() == "TensorArrayV3" || (op != ArrayOps().end() && op->second.makes_flow)) work.push_back(node.name());
  }
  while (!work.empty()) {
    const std::string from = work.back();
    work.pop_back();
    for (const int user : users[from]) {
      proto::NodeDef& node = *graph_.mutable_node(user);
      if (IsPush(node) && node.input_size() > 1 && Producer(node.input(1)) == from) {
        for (const std::string& pop : RaiseStackOfFlows(node))
          if (flows_.insert(pop).second) work.push_back(pop);
        continue;
      }
      const bool hands_on = PassesOn(node.op()) || (IsSum(node.op()) && !gradients_.empty());
      if (!hands_on || !flows_.insert(node.name()).second) continue;
      (*node.mutable_attr())["T"].set_type(proto::DT_VARIANT);
      work.push_back(node.name());
    }
  }
}

// The TensorArrayV3 that made a handle.
// Types and shapes stand at the maker only. The way back goes through Enter and Switch, and is bounded, because the
// message may hold any cycle.
const proto::NodeDef* ArrayRaiser::MakerOf(const std::string& handle) const {
  std::string at = Producer(handle);
  for (int steps = 0; steps < graph_.node_size(); ++steps) {
    const auto found = index_.find(at);
    if (found == index_.end()) return nullptr;
    const proto::NodeDef& node = graph_.node(found->second);
    if (makers_.contains(node.name())) return &makers_.at(node.name());
    if (node.op() == "TensorArrayV3") return &node;
    if (const auto gradient = gradients_.find(node.name()); gradient != gradients_.end()) {
      at = Producer(gradient->second.input(0));
      continue;
    }
    if (!PassesOn(node.op()) || node.input_size() == 0) return nullptr;
    at = Producer(node.input(0));
  }
  return nullptr;
}

std::string ArrayRaiser::UniqueName(const std::string& wanted) {
  std::string name = wanted;
  for (int n = 1; index_.contains(name); ++n) name = fmt::format("{}_{}", wanted, n);
  index_.emplace(name, -1);
  return name;
}

// Adds a constant in the frame and branch of `node`: it waits for the origin of the node's flow. A constant
// without inputs would be in the outermost frame, and a node that joins two frames without an Enter is
// invalid.
std::string ArrayRaiser::AddInts(const proto::NodeDef& node, const std::string& what,
                                 const std::vector<int64_t>& values, bool scalar, const std::string& beside,
                                 proto::DataType dtype) {
  proto::NodeDef constant;
  constant.set_name(UniqueName(node.name() + "/" + what));
  constant.set_op("Const");
  if (const std::string producer = Producer(beside); !producer.empty()) {
    // By way of an Identity: a control edge from a Switch would wait for either branch.
    proto::NodeDef place;
    place.set_name(UniqueName(node.name() + "/" + what + "/place"));
    place.set_op("Identity");
    place.add_input(beside);
    (*place.mutable_attr())["T"].set_type(proto::DT_VARIANT);
    constant.add_input("^" + place.name());
    added_.push_back(std::move(place));
  }
  (*constant.mutable_attr())["dtype"].set_type(dtype);
  proto::TensorProto& tensor = *(*constant.mutable_attr())["value"].mutable_tensor();
  tensor.set_dtype(dtype);
  tensor.mutable_tensor_shape();
  if (!scalar) tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) {
    if (dtype == proto::DT_INT64)
      tensor.add_int64_val(value);
    else
      tensor.add_int_val(static_cast<int32_t>(value));
  }
  std::string name = constant.name();
  added_.push_back(std::move(constant));
  return name;
}

// The attribute element_shape (or element_shape_except0) as an input: -1 where nothing is known.
std::string ArrayRaiser::AddElementShape(const proto::NodeDef& node, const proto::TensorShapeProto* shape,
                                         const std::string& beside) {
  if (shape == nullptr || shape->unknown_rank()) return AddInts(node, "element_shape", {-1}, true, beside);
  std::vector<int64_t> dims;
  for (const auto& dim : shape->dim()) dims.push_back(dim.size());
  return AddInts(node, "element_shape", dims, false, beside);
}

const proto::TensorShapeProto* ArrayRaiser::ShapeAttr(const proto::NodeDef& node, const std::string& name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second.shape();
}

Status ArrayRaiser::Raise(int i) {
  proto::NodeDef& node = *graph_.mutable_node(i);
  if (node.op() == "TensorArrayCloseV3" || node.op() == "TensorArrayGradV3") {
    node.set_op("NoOp");
    KeepControls(node, {});
    node.clear_attr();
    return absl::OkStatus();
  }
  if (node.op() == "TensorArrayV3") {
    makers_.emplace(node.name(), node);
    if (node.input_size() < 1) return InvalidArgument("TensorArrayV3 '{}' has no size", node.name());
    const proto::AttrValue dtype = DTypeOf(node);
    const std::string shape = AddElementShape(node, ShapeAttr(node, "element_shape"), "");
    node.set_op("TensorListReserve");
    KeepControls(node, {shape, node.input(0)});
    node.clear_attr();
    (*node.mutable_attr())["element_dtype"] = dtype;
    (*node.mutable_attr())["shape_type"].set_type(proto::DT_INT32);
    return absl::OkStatus();
  }
  const auto found = ArrayOps().find(node.op());
  if (found == ArrayOps().end()) {
    if (node.op().starts_with("TensorArray"))
      return Unimplemented("{} '{}' is not raised to an op on lists", node.op(), node.name());
    return absl::OkStatus();
  }
  const ArrayOp& op = found->second;
  if (node.input_size() <= op.flow)
    return InvalidArgument("{} '{}' has {} inputs, fewer than it needs", node.op(), node.name(), node.input_size());
  const proto::NodeDef* maker = MakerOf(node.input(0));
  if (maker == nullptr)
    return Unimplemented("{} '{}': the TensorArrayV3 of its handle '{}' is unknown", node.op(), node.name(),
                         node.input(0));
  const std::string flow = node.input(op.flow);
  if (op.makes_flow && IsGradient(node.input(0))) {
    if (!fresh_.contains(Producer(flow)))
      return Unimplemented("{} '{}' adds to a gradient that has values before", node.op(), node.name());
    if (node.op() == "TensorArrayScatterV3") return AddRows(node, *maker, flow);
  }
  const bool dynamic = IsDynamic(*maker);
  const proto::AttrValue dtype = DTypeOf(*maker);
  std::vector<std::string> inputs;
  for (const int input : op.inputs) inputs.push_back(node.input(input));
  proto::AttrValue integers;
  integers.set_type(proto::DT_INT32);
  std::map<std::string, proto::AttrValue> attrs = {{"element_dtype", dtype}};
  if (node.op() == "TensorArrayReadV3") {
    inputs.push_back(AddElementShape(node, ShapeAttr(*maker, "element_shape"), flow));
  } else if (node.op() == "TensorArrayGatherV3") {
    inputs.push_back(AddElementShape(node, ShapeAttr(node, "element_shape"), flow));
  } else if (node.op() == "TensorArrayConcatV3") {
    inputs.push_back(AddInts(node, "element_shape", {-1}, true, flow));
    inputs.push_back(AddInts(node, "leading_dims", {}, false, flow, proto::DT_INT64));
    attrs["shape_type"] = integers;
  } else if (node.op() == "TensorArraySplitV3") {
    inputs.push_back(AddInts(node, "element_shape", {-1}, true, flow));
    inputs.push_back(node.input(2));
    attrs["shape_type"] = integers;
  } else if (node.op() == "TensorArrayWriteV3") {
    attrs["resize_if_index_out_of_bounds"].set_b(dynamic);
  } else if (node.op() == "TensorArraySizeV3") {
    attrs.clear();
    if (!dynamic) {  // the size is what was asked for, known where that is
      node.set_op("Identity");
      KeepControls(node, {maker->input(0)});
      node.clear_attr();
      (*node.mutable_attr())["T"] = integers;
      return absl::OkStatus();
    }
  }
  node.set_op(std::string(op.list_op));
  KeepControls(node, inputs);
  node.clear_attr();
  for (const auto& [name, value] : attrs) (*node.mutable_attr())[name] = value;
  return absl::OkStatus();
}

// The data inputs replaced, the control inputs kept.
void ArrayRaiser::KeepControls(proto::NodeDef& node, const std::vector<std::string>& inputs) {
  std::vector<std::string> all = inputs;
  for (const std::string& input : node.input())
    if (input.starts_with('^')) all.push_back(input);
  node.clear_input();
  for (std::string& input : all) node.add_input(std::move(input));
}

Status RaiseTensorArrays(proto::GraphDef& graph) { return ArrayRaiser(graph).Run(); }

}  // namespace rivulet
