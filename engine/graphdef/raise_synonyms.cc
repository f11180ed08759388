#include "engine/graphdef/raise_synonyms.h"

#include <string>
#include <unordered_map>

#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

constexpr int kMaxLoops = 32;  // that a handle passes

// The handle that `text` names. Loops and identities give out the handles that they take, under other names.
const proto::NodeDef* HandleBehind(const proto::GraphDef& graph, const std::unordered_map<std::string, int>& places,
                                   std::string text) {
  for (int depth = 0; depth < kMaxLoops; ++depth) {
    const StatusOr<InputRef> ref = ParseInputRef(text);
    const auto place = ref.ok() && !ref->control ? places.find(std::string(ref->node)) : places.end();
    if (place == places.end()) return nullptr;
    const proto::NodeDef& node = graph.node(place->second);
    if (node.op() != "While" && node.op() != "StatelessWhile" && node.op() != "Identity") return &node;
    if (ref->port >= node.input_size()) return nullptr;
    text = node.input(ref->port);
  }
  return nullptr;
}

// The type of the variable behind a handle; nullptr where its node does not say it.
const proto::AttrValue* VariableType(const proto::NodeDef& handle) {
  const auto found = handle.attr().find(handle.op() == "_Arg" ? "_handle_dtype" : "dtype");
  return found == handle.attr().end() || found->second.value_case() != proto::AttrValue::kType ? nullptr
                                                                                               : &found->second;
}

// The shape of a variable is that of its value. A program knows it without reading.
void RaiseVariableShapes(proto::GraphDef& graph) {
  std::unordered_map<std::string, int> places;
  bool any = false;
  for (int i = 0; i < graph.node_size(); ++i) {
    places.emplace(graph.node(i).name(), i);
    any = any || graph.node(i).op() == "VariableShape";
  }
  const int count = any ? graph.node_size() : 0;  // reads are appended
  for (int i = 0; i < count; ++i) {
    if (graph.node(i).op() != "VariableShape" || graph.node(i).input_size() == 0) continue;
    const proto::NodeDef* const handle = HandleBehind(graph, places, graph.node(i).input(0));
    const proto::AttrValue* const type = handle == nullptr ? nullptr : VariableType(*handle);
    if (type == nullptr) continue;
    std::string name = graph.node(i).name() + "/Read";
    while (places.contains(name)) name += "_";
    places.emplace(name, graph.node_size());
    proto::NodeDef read;
    read.set_name(name);
    read.set_op("ReadVariableOp");
    read.add_input(handle->name());
    (*read.mutable_attr())["dtype"] = *type;
    *graph.add_node() = std::move(read);
    proto::NodeDef& shape = *graph.mutable_node(i);
    shape.set_op("Shape");
    shape.set_input(0, name);
    (*shape.mutable_attr())["T"] = graph.node(places[name]).attr().at("dtype");
  }
}

// The resource form of an op whose handle is a reference to a string; the same op in all else. "" for any other op.
std::string ResourceForm(const std::string& op) {
  if (op == "ConditionalAccumulator" || op == "AccumulatorApplyGradient" || op == "AccumulatorTakeGradient" ||
      op == "AccumulatorSetGlobalStep" || op == "AccumulatorNumAccumulated")
    return "Resource" + op;
  if (op == "FIFOQueue" || op == "PaddingFIFOQueue" || op == "RandomShuffleQueue" || op == "QueueEnqueue" ||
      op == "QueueEnqueueMany" || op == "QueueDequeue" || op == "QueueDequeueMany" || op == "QueueDequeueUpTo" ||
      op == "QueueClose" || op == "QueueIsClosed" || op == "QueueSize")
    return op + "V2";
  return "";
}

}  // namespace

void RaiseSynonyms(proto::GraphDef& graph) {
  RaiseVariableShapes(graph);
  for (proto::NodeDef& node : *graph.mutable_node()) {
    if (std::string form = ResourceForm(node.op()); !form.empty()) node.set_op(std::move(form));
    auto& attrs = *node.mutable_attr();
    if (node.op() == "AccumulateNV2") {
      node.set_op("AddN");
      attrs.erase("shape");
    } else if (node.op() == "BatchMatMulV3" && attrs.contains("Ta") && attrs.contains("Tb") && attrs.contains("Tout")) {
      const proto::DataType type = attrs.at("Ta").type();
      if (attrs.at("Tb").type() != type || attrs.at("Tout").type() != type) continue;
      node.set_op("BatchMatMulV2");
      for (const char* name : {"Ta", "Tb", "Tout"}) attrs.erase(name);
      attrs["T"].set_type(type);
    }
  }
}

}  // namespace rivulet
