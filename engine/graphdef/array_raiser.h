// The conversion of TensorFlow's version-1 tensor arrays to tensor lists, as a class in two files.
// raise_tensor_arrays.cc handles arrays and their flows, raise_tensor_array_gradients.cc the gradients of arrays.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graphdef/verify.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// An op on arrays: the list's op, and the inputs that become that op's inputs, in order.
struct ArrayOp {
  std::string_view list_op;
  std::vector<int> inputs;
  int flow;         // index of the flow among the inputs
  bool makes_flow;  // output 0 is the array's new flow
};

// In version 1 a handle names the array, and a number, the flow, orders the operations on it. A tensor list is a value
// that contains its state. So the list can replace the flow edge by edge, and the flow's order becomes data dependence.
// The handle is not needed any more.
//
// An array's gradient is a separate array. TensorArrayGradV3 creates it at first use and later finds it by name; every
// write adds to the element. As values, each use begins with a new list of zeros (if the flow is the array's own), and
// the lists are summed where the flows are summed.
class ArrayRaiser {
 public:
  explicit ArrayRaiser(proto::GraphDef& graph) : graph_(graph) {}
  Status Run();

 private:
  static const std::map<std::string_view, ArrayOp>& ArrayOps();
  static bool PassesOn(std::string_view op);
  static bool IsSum(std::string_view op);

  // raise_tensor_arrays.cc
  std::span<const int> UsersOf(const std::string& name) const;
  bool IsFlow(const std::string& name) const;
  static bool IsDynamic(const proto::NodeDef& maker);
  static proto::AttrValue DTypeOf(const proto::NodeDef& maker);
  static bool IsPush(const proto::NodeDef& node) { return node.op() == "StackPush" || node.op() == "StackPushV2"; }
  std::vector<std::string> RaiseStackOfFlows(proto::NodeDef& push);
  std::string StackOf(const proto::NodeDef& use) const;
  static std::string Producer(const std::string& input, int* port = nullptr);
  void FindFlows();
  const proto::NodeDef* MakerOf(const std::string& handle) const;
  std::string UniqueName(const std::string& wanted);
  std::string AddInts(const proto::NodeDef& node, const std::string& what, const std::vector<int64_t>& values,
                      bool scalar, const std::string& beside, proto::DataType dtype = proto::DT_INT32);
  std::string AddElementShape(const proto::NodeDef& node, const proto::TensorShapeProto* shape,
                              const std::string& beside);
  static const proto::TensorShapeProto* ShapeAttr(const proto::NodeDef& node, const std::string& name);
  Status Raise(int i);
  static void KeepControls(proto::NodeDef& node, const std::vector<std::string>& inputs);

  // raise_tensor_array_gradients.cc
  void FindGradients();
  std::set<std::string> ForwardFlows() const;
  Status RaiseGradientFlows();
  Status BeginGradient(proto::NodeDef& node, const std::string& handle);
  bool EntersLoop(const std::string& handle) const;
  static void BecomeZeros(proto::NodeDef& node, const proto::NodeDef& maker, const std::string& shape,
                          const std::string& length);
  Status ReplaceZero(const proto::NodeDef& at, std::string& input);
  const proto::NodeDef* ArrayOfFlow(const std::string& name) const;
  bool IsGradient(const std::string& handle) const;
  Status AddRows(proto::NodeDef& node, const proto::NodeDef& maker, const std::string& flow);

  proto::GraphDef& graph_;
  std::map<std::string, int> index_;
  std::map<std::string, proto::NodeDef> makers_;             // original nodes
  std::map<std::string, proto::NodeDef> gradients_;          // original TensorArrayGradV3 nodes
  std::map<std::string, std::string> begins_;                // Identity of a gradient's flow → the TensorArrayGradV3
  std::set<std::string> fresh_;                              // those of them that are now lists of zeros
  std::map<std::string, std::vector<std::string>> pops_of_;  // by a flow's push
  std::set<std::string> flows_;                              // nodes that pass a flow on, or sum flows
  std::map<std::string, std::vector<int>> users_;            // consumers of a possible flow
  std::vector<proto::NodeDef> added_;
};

}  // namespace rivulet
