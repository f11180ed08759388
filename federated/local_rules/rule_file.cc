#include <algorithm>

#include "engine/graphdef/graph_def.h"
#include "federated/local_rules/own_rule.h"
#include "federated/local_rules/rule_graph.h"

namespace rivulet {
namespace {

// A graph contains bytes that text never contains: in each node a 0x12 precedes the op's name.
bool IsText(std::string_view bytes) {
  return std::ranges::none_of(
      bytes, [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r'; });
}

}  // namespace

StatusOr<OwnRule> OwnRule::OfFile(std::string_view bytes, std::string_view path) {
  if (!IsText(bytes)) {
    StatusOr<OwnRule> rule = Open(bytes);
    if (!rule.ok())
      return Annotate(rule.status(),
                      fmt::format("'{}' (neither a rule as text nor a graph of 'rivulet graph build'?)", path));
    return rule;
  }
  const StatusOr<Graph> graph = BuildRule(bytes);
  // FILE:LINE:COLUMN, the format of compilers.
  if (!graph.ok()) return Status(graph.status().code(), ToAbsl(fmt::format("{}:{}", path, Message(graph.status()))));
  StatusOr<OwnRule> rule = Open(SerializeGraph(*graph));
  if (!rule.ok()) return Annotate(rule.status(), path);
  return rule;
}

}  // namespace rivulet
