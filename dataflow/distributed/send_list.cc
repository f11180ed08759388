#include "dataflow/distributed/send_list.h"

#include <algorithm>
#include <vector>

#include "dataflow/placement/rendezvous.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"
#include "engine/graph/function.h"

namespace rivulet {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kMostNamed = 8;  // limit of tensors in one error

bool IsSend(const Node& node) { return node.type() == "_Send"; }

// Masters (TensorFlow's and Rivulet's) insert this Cast, under arbitrary names.
bool IsListed(const Output& sent, const SendList& listed) {
  if (sent.node->type() == "Const" || listed.contains(sent.name())) return true;
  return sent.node->type() == "Cast" && sent.dtype() == DType::kBFloat16 && listed.contains(sent.node->input(0).name());
}

}  // namespace

StatusOr<SendList> ParseSendList(std::string_view text) {
  SendList listed;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    name = name.substr(0, name.find('#'));
    const size_t first = name.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) continue;
    name = name.substr(first, name.find_last_not_of(kBlanks) + 1 - first);
    const size_t colon = name.find(':');
    const std::string_view port = colon == std::string_view::npos ? "0" : name.substr(colon + 1);
    const bool number = !port.empty() && port.size() <= 4 &&
                        std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }) &&
                        (port == "0" || port[0] != '0');
    if (!number || colon == 0 || name.find_first_of(kBlanks) != std::string_view::npos || name[0] == '^')
      return InvalidArgument("line {}: '{}' is no name of a tensor; write 'activations' or 'split:1', one a line", line,
                             Shortened(name));
    if (port == "0") name = name.substr(0, colon);
    listed.emplace(name);
  }
  return listed;
}

Status CheckSends(const Graph& graph, const SendList& listed, std::string_view task) {
  for (const auto& [name, function] : graph.functions())
    for (const auto& node : function->body->nodes())
      if (IsSend(*node))
        return PermissionDenied("the function '{}' sends tensors; '{}' lets only nodes of a graph itself send",
                                Shortened(name), task);
  std::vector<std::string> refused;
  size_t more = 0;
  for (const auto& node : graph.nodes()) {
    if (!IsSend(*node) || IsListed(node->input(0), listed)) continue;
    if (refused.size() == kMostNamed) {
      ++more;
      continue;
    }
    const std::string_view receiver = TaskOf(node->attr<std::string>("recv_device"));
    refused.push_back(
        fmt::format("'{}' to {}", Shortened(node->input(0).name()),
                    receiver == task ? "its session's client" : fmt::format("'{}'", Shortened(receiver))));
  }
  if (refused.empty()) return absl::OkStatus();
  return PermissionDenied(
      "the graph would send {}{} from '{}', whose owner does not list that; the owner can add it to the file of --send",
      Join(refused, ", "), more == 0 ? "" : fmt::format(" and {} more", more), task);
}

}  // namespace rivulet
