// Gradients of tensor arrays: the half of ArrayRaiser that makes lists of zeros where they begin, and sums where they
// meet.
#include <utility>

#include "engine/graphdef/array_raiser.h"

namespace rivulet {

// Handles of gradients, and where a flow becomes that of a gradient: an Identity that waits for the handle.
void ArrayRaiser::FindGradients() {
  for (const proto::NodeDef& node : graph_.node())
    if (node.op() == "TensorArrayGradV3" && node.input_size() > 0) gradients_.emplace(node.name(), node);
  for (const proto::NodeDef& node : graph_.node()) {
    if (node.op() != "Identity") continue;
    for (const std::string& input : node.input())
      if (input.starts_with('^') && gradients_.contains(input.substr(1))) begins_.emplace(node.name(), input.substr(1));
  }
}

// Which flows are of arrays themselves: the others that FindFlows found are of gradients.
std::set<std::string> ArrayRaiser::ForwardFlows() const {
  std::set<std::string> forward;
  std::vector<std::string> work;
  for (const proto::NodeDef& node : graph_.node()) {
    const auto op = ArrayOps().find(node.op());
    const bool writes =
        op != ArrayOps().end() && op->second.makes_flow && node.input_size() > 0 && !IsGradient(node.input(0));
    if ((node.op() == "TensorArrayV3" || writes) && forward.insert(node.name()).second) work.push_back(node.name());
  }
  while (!work.empty()) {
    const std::string from = work.back();
    work.pop_back();
    for (const int user : UsersOf(from)) {
      const proto::NodeDef& node = graph_.node(user);
      if (const auto pops = pops_of_.find(node.name()); pops != pops_of_.end())
        for (const std::string& pop : pops->second)
          if (forward.insert(pop).second) work.push_back(pop);
      if (PassesOn(node.op()) && !begins_.contains(node.name()) && forward.insert(node.name()).second)
        work.push_back(node.name());
    }
  }
  return forward;
}

// A list of zeros where a gradient begins, sums of lists, and zeros where a sum or a loop begins with a number.
Status ArrayRaiser::RaiseGradientFlows() {
  if (gradients_.empty()) return absl::OkStatus();
  const std::set<std::string> forward = ForwardFlows();
  const int count = graph_.node_size();
  for (int i = 0; i < count; ++i) {
    proto::NodeDef& node = *graph_.mutable_node(i);
    if (const auto begin = begins_.find(node.name()); begin != begins_.end()) {
      const std::string flow = node.input(0);
      if (forward.contains(Producer(flow))) RIVULET_RETURN_IF_ERROR(BeginGradient(node, begin->second));
      continue;
    }
    const bool gradient_flow = flows_.contains(node.name()) && !forward.contains(node.name());
    if (!gradient_flow || (!IsSum(node.op()) && node.op() != "Merge")) continue;
    int data = 0;
    for (std::string& input : *node.mutable_input()) {
      if (input.starts_with('^')) continue;
      ++data;
      if (!IsFlow(Producer(input))) RIVULET_RETURN_IF_ERROR(ReplaceZero(node, input));
    }
    if (!IsSum(node.op())) continue;
    node.set_op("AddN");
    node.clear_attr();
    (*node.mutable_attr())["T"].set_type(proto::DT_VARIANT);
    (*node.mutable_attr())["N"].set_i(data);
  }
  return absl::OkStatus();
}

// `node`, the Identity of a gradient's first flow, becomes a list of zeros as long as the array.
Status ArrayRaiser::BeginGradient(proto::NodeDef& node, const std::string& handle) {
  const proto::NodeDef* maker = MakerOf(gradients_.at(handle).input(0));
  if (maker == nullptr)
    return Unimplemented("TensorArrayGradV3 '{}': the TensorArrayV3 of its handle is unknown", handle);
  const std::string flow = node.input(0);
  const std::string shape = AddElementShape(node, ShapeAttr(*maker, "element_shape"), flow);
  fresh_.insert(node.name());
  // The size that the array was asked for is known where that is; a list that leaves a loop has lost it.
  if (!IsDynamic(*maker) && maker->input_size() > 0 && !EntersLoop(gradients_.at(handle).input(0))) {
    BecomeZeros(node, *maker, shape, maker->input(0));
    return absl::OkStatus();
  }
  proto::NodeDef length;
  length.set_name(UniqueName(node.name() + "/length"));
  length.set_op("TensorListLength");
  length.add_input(flow);
  BecomeZeros(node, *maker, shape, length.name());
  added_.push_back(std::move(length));
  return absl::OkStatus();
}

// Whether a handle was made outside of the loop in which it is used.
bool ArrayRaiser::EntersLoop(const std::string& handle) const {
  std::string at = Producer(handle);
  for (int steps = 0; steps < graph_.node_size(); ++steps) {
    const auto found = index_.find(at);
    if (found == index_.end() || found->second < 0) return false;
    const proto::NodeDef& node = graph_.node(found->second);
    if (node.op() == "Enter" || node.op() == "RefEnter") return true;
    if (!PassesOn(node.op()) || node.input_size() == 0) return false;
    at = Producer(node.input(0));
  }
  return false;
}

void ArrayRaiser::BecomeZeros(proto::NodeDef& node, const proto::NodeDef& maker, const std::string& shape,
                              const std::string& length) {
  node.set_op("TensorListReserve");
  KeepControls(node, {shape, length});
  node.clear_attr();
  (*node.mutable_attr())["element_dtype"] = DTypeOf(maker);
  (*node.mutable_attr())["shape_type"].set_type(proto::DT_INT32);
}

// The initial value of a sum of flows, or of a loop that makes one: the number 0 becomes a list of zeros.
Status ArrayRaiser::ReplaceZero(const proto::NodeDef& at, std::string& input) {
  const auto found = index_.find(Producer(input));
  if (found != index_.end() && found->second >= 0 && graph_.node(found->second).op() == "Enter") {
    proto::NodeDef& enter = *graph_.mutable_node(found->second);
    (*enter.mutable_attr())["T"].set_type(proto::DT_VARIANT);
    flows_.insert(enter.name());
    if (enter.input_size() > 0 && IsFlow(Producer(enter.input(0)))) return absl::OkStatus();
    return enter.input_size() > 0 ? ReplaceZero(at, *enter.mutable_input(0)) : absl::OkStatus();
  }
  const proto::NodeDef* maker = ArrayOfFlow(at.name());
  if (maker == nullptr || maker->input_size() == 0 || IsDynamic(*maker))
    return Unimplemented("{} '{}' begins a gradient of a tensor array whose size is not known there", at.op(),
                         at.name());
  proto::NodeDef zeros;
  zeros.set_name(UniqueName(at.name() + "/zeros"));
  BecomeZeros(zeros, *maker, AddElementShape(zeros, ShapeAttr(*maker, "element_shape"), ""), maker->input(0));
  input = zeros.name();
  added_.push_back(std::move(zeros));
  return absl::OkStatus();
}

// The array whose gradient goes through the flow `name`: that of the next op on it.
const proto::NodeDef* ArrayRaiser::ArrayOfFlow(const std::string& name) const {
  std::set<std::string> seen = {name};
  std::vector<std::string> work = {name};
  while (!work.empty()) {
    const std::string from = work.back();
    work.pop_back();
    for (const int user : UsersOf(from)) {
      const proto::NodeDef& node = graph_.node(user);
      if (const auto begin = begins_.find(node.name()); begin != begins_.end())
        return MakerOf(gradients_.at(begin->second).input(0));
      if (flows_.contains(node.name()) && seen.insert(node.name()).second) work.push_back(node.name());
    }
  }
  return nullptr;
}

// Whether a handle is that of a gradient.
bool ArrayRaiser::IsGradient(const std::string& handle) const {
  std::string at = Producer(handle);
  for (int steps = 0; steps < graph_.node_size(); ++steps) {
    if (gradients_.contains(at)) return true;
    const auto found = index_.find(at);
    if (found == index_.end() || found->second < 0) return false;
    const proto::NodeDef& node = graph_.node(found->second);
    if (!PassesOn(node.op()) || node.input_size() == 0) return false;
    at = Producer(node.input(0));
  }
  return false;
}

// Rows that go to one element are summed, as every write to a gradient adds. The flow is a list of zeros, whose size
// may be known where its elements' shape is not.
Status ArrayRaiser::AddRows(proto::NodeDef& node, const proto::NodeDef& maker, const std::string& flow) {
  const proto::NodeDef& begin = graph_.node(index_.at(Producer(flow)));
  if (begin.op() != "TensorListReserve" || begin.input_size() < 2)
    return Unimplemented("{} '{}' adds to a gradient of unknown size", node.op(), node.name());
  proto::NodeDef rows;
  rows.set_name(UniqueName(node.name() + "/rows"));
  rows.set_op("UnsortedSegmentSum");
  for (const std::string& input : {node.input(2), node.input(1), begin.input(1)}) rows.add_input(input);
  (*rows.mutable_attr())["T"] = DTypeOf(maker);
  (*rows.mutable_attr())["Tindices"].set_type(proto::DT_INT32);
  (*rows.mutable_attr())["Tnumsegments"].set_type(proto::DT_INT32);
  const std::string shape = AddElementShape(node, ShapeAttr(maker, "element_shape"), flow);
  node.set_op("TensorListFromTensor");
  KeepControls(node, {rows.name(), shape});
  node.clear_attr();
  (*node.mutable_attr())["element_dtype"] = DTypeOf(maker);
  (*node.mutable_attr())["shape_type"].set_type(proto::DT_INT32);
  added_.push_back(std::move(rows));
  return absl::OkStatus();
}

}  // namespace rivulet
