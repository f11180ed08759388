#include "engine/graphdef/drop_messages.h"

#include <algorithm>
#include <set>
#include <string>

#include "engine/graphdef/verify.h"

namespace rivulet {
namespace {

bool IsString(const proto::NodeDef& node) {
  const auto dtype = node.attr().find("dtype");
  return node.op() == "Const" && dtype != node.attr().end() && dtype->second.type() == proto::DT_STRING;
}

std::string Producer(const std::string& input) {
  const StatusOr<InputRef> ref = ParseInputRef(input);
  return ref.ok() ? std::string(ref->node) : std::string();
}

}  // namespace

void DropMessages(proto::GraphDef& graph) {
  std::set<std::string> strings, used;
  for (const proto::NodeDef& node : graph.node())
    if (IsString(node)) strings.insert(node.name());
  if (strings.empty()) return;
  bool dropped = false;
  for (proto::NodeDef& node : *graph.mutable_node()) {
    const char* const types = node.op() == "Assert" ? "T" : node.op() == "Print" ? "U" : nullptr;
    if (types != nullptr && node.attr().count(types) > 0) {
      auto& list = *(*node.mutable_attr())[types].mutable_list();
      int kept = 1;  // input 0 is the condition, or what is printed
      for (int i = 1; i < node.input_size(); ++i) {
        const bool data = i - 1 < list.type_size() && !node.input(i).starts_with('^');
        if (data && strings.contains(Producer(node.input(i)))) {
          dropped = true;
          continue;
        }
        if (data) list.set_type(kept - 1, list.type(i - 1));
        node.set_input(kept++, node.input(i));
      }
      const int inputs = node.input_size() - kept;
      if (inputs > 0) {
        node.mutable_input()->DeleteSubrange(kept, inputs);
        list.mutable_type()->Truncate(std::max(0, list.type_size() - inputs));
      }
    }
    for (const std::string& input : node.input()) used.insert(Producer(input));
  }
  if (!dropped) return;
  int kept = 0;
  for (int i = 0; i < graph.node_size(); ++i)
    if (!strings.contains(graph.node(i).name()) || used.contains(graph.node(i).name()))
      graph.mutable_node()->SwapElements(kept++, i);
  graph.mutable_node()->DeleteSubrange(kept, graph.node_size() - kept);
}

}  // namespace rivulet
