// The passage from tensor arrays of TensorFlow's version 1 to tensor lists, as a class in two files:
// raise_tensor_arrays.cc has arrays and their flows, raise_tensor_array_gradients.cc the gradients of arrays.
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

// Ops on arrays, how the list's op is called, and which of their inputs become its inputs, in order.
struct ArrayOp {
  std::string_view list_op;
  std::vector<int> inputs;
  int flow;         // the input
  bool makes_flow;  // output 0 is the array's new flow
};

// In version 1 a handle names the array and a number, the flow, orders what happens to it. A tensor list is a value,
// and whoever holds it holds its state; so the list can take exactly the place of the flow, edge by edge, and the order
// that the flow stood for becomes one of data. The handle is needed no more.
//
// An array's gradient is an array of its own, which TensorArrayGradV3 makes at first use and finds by name later; every
// write adds to what an element has. As values, each use begins with a new list of zeros (where the flow is that of the
// array itself) and the lists meet where flows are summed.
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
  std::map<std::string, proto::NodeDef> makers_;             // as they were
  std::map<std::string, proto::NodeDef> gradients_;          // TensorArrayGradV3, as they were
  std::map<std::string, std::string> begins_;                // Identity of a gradient's flow → the TensorArrayGradV3
  std::set<std::string> fresh_;                              // those of them that are lists of zeros now
  std::map<std::string, std::vector<std::string>> pops_of_;  // by push of a flow
  std::set<std::string> flows_;                              // nodes that hand a flow on, or sum flows
  std::map<std::string, std::vector<int>> users_;            // of what may be a flow
  std::vector<proto::NodeDef> added_;
};

}  // namespace rivulet
