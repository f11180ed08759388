#include "engine/graphdef/verify.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <charconv>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/nearest.h"
#include "engine/graph/op.h"
#include "engine/graphdef/proto_conversion.h"

namespace rivulet {
namespace {

std::string DescribeNode(const proto::NodeDef& node) { return fmt::format("{} '{}'", node.op(), node.name()); }

// Names are quoted in messages; those from outside may be long or hold control characters.
std::string PrintableName(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 80)) out += c >= ' ' && c < '\x7f' ? c : '?';
  return text.size() > 80 ? out + "…" : out;
}

bool ValidName(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  constexpr size_t kLongest = 4096;
  if (name.empty() || name.size() > kLongest || !(alphanumeric(name.front()) || name.front() == '.')) return false;
  return std::ranges::all_of(
      name, [&](char c) { return alphanumeric(c) || std::string_view("_.\\/>-").find(c) != std::string_view::npos; });
}

// Names stay in the message; views of them are cheap, and the message outlives the check.
using Index = std::unordered_map<std::string_view, int>;

StatusOr<Index> IndexNodes(const proto::GraphDef& graph) {
  Index index;
  for (int i = 0; i < graph.node_size(); ++i) {
    const proto::NodeDef& node = graph.node(i);
    if (!ValidName(node.name()))
      return InvalidArgument("node {} ({}) has the invalid name '{}'; names use letters, digits, '_', '-', '.' and '/'",
                             i, PrintableName(node.op()), PrintableName(node.name()));
    const auto [first, inserted] = index.try_emplace(node.name(), i);
    if (!inserted)
      return InvalidArgument("{}: nodes {} and {} have this same name", DescribeNode(node), first->second, i);
  }
  return index;
}

// The list of names for a suggestion is only made where there is an error: a graph may have a million nodes, all in
// order.
Status CheckInputs(const proto::NodeDef& node, const Index& index, const GraphLimits& limits) {
  if (static_cast<size_t>(node.input_size()) > limits.inputs_per_node)
    return ResourceExhausted("{}: has {} inputs, more than {}", DescribeNode(node), node.input_size(),
                             limits.inputs_per_node);
  bool after_control = false;
  for (const std::string& text : node.input()) {
    const StatusOr<InputRef> input = ParseInputRef(text);
    if (!input.ok()) return Annotate(input.status(), DescribeNode(node));
    if (after_control && !input->control)
      return InvalidArgument("{}: the data input '{}' follows a control input", DescribeNode(node),
                             PrintableName(text));
    after_control = input->control;
    if (index.contains(input->node)) continue;
    std::vector<std::string> names;
    for (const auto& [name, at] : index) names.emplace_back(name);
    std::ranges::sort(names);
    return NotFound("{}: its input '{}' is not in the graph.{}", DescribeNode(node), PrintableName(text),
                    DidYouMean(input->node, names));
  }
  return absl::OkStatus();
}

// An attribute that is unknown here may change the op's meaning. It is accepted only if its value equals the meaning of
// its absence. A model that silently computes something else is worse than a refused one.
Status CheckOp(const proto::NodeDef& node) {
  static const std::unordered_set<std::string_view> kControlFlow = {
      "Switch",    "Merge",    "Enter",    "Exit",    "NextIteration",   "LoopCond",
      "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration"};
  if (kControlFlow.contains(node.op()))
    return Unimplemented("{}: control flow is not supported; export the graph without conditions and loops",
                         DescribeNode(node));
  // A graph may come from an untrusted source, and must not choose the files that are read.
  static const std::unordered_set<std::string_view> kReadsPaths = {
      "TFRecordDataset",      "TFRecordDatasetV2",          "TextLineDataset",  "FixedLengthRecordDataset",
      "MatchingFilesDataset", "FixedLengthRecordDatasetV2", "TFRecordReaderV2", "WholeFileReaderV2",
      "TextLineReaderV2",     "FixedLengthRecordReaderV2",  "ReadFile"};
  if (kReadsPaths.contains(node.op()))
    return InvalidArgument("{}: opens files by path; a graph may only read data bound by its caller: BoundDataset",
                           DescribeNode(node));
  const StatusOr<const OpDef*> op = OpRegistry::Global().Get(node.op());
  if (!op.ok())
    return Status(op.status().code(),
                  ToAbsl(fmt::format("node '{}': {}", node.name(), PrintableName(Message(op.status())))));
  size_t no_budget = SIZE_MAX;
  for (const auto& [name, value] : node.attr()) {
    const AttrDef* def = (*op)->FindAttr(name);
    const std::string where = fmt::format("{}: attribute '{}'", DescribeNode(node), PrintableName(name));
    if (def == nullptr) {
      if (!name.starts_with('_') && !IsNeutral(value))
        return Unimplemented("{} has a meaning that is not known here; leave it out", where);
      continue;
    }
    if (def->kind == AttrDef::Kind::kTensor) {
      if (value.value_case() != proto::AttrValue::kTensor)
        return Annotate(AttrFromProto(value, def, no_budget).status(), where);
      if (const StatusOr<Shape> shape = ShapeFromProto(value.tensor().tensor_shape()); !shape.ok())
        return Annotate(shape.status(), where);
      continue;  // the values are checked when they are read
    }
    if (const StatusOr<AttrValue> converted = AttrFromProto(value, def, no_budget); !converted.ok())
      return Annotate(converted.status(), where);
  }
  return absl::OkStatus();
}

// The nodes of one cycle among those that never became ready.
std::string DescribeCycle(const proto::GraphDef& graph, const std::vector<std::vector<int>>& inputs,
                          const std::vector<int>& waiting) {
  int at = 0;
  while (waiting[static_cast<size_t>(at)] == 0) ++at;
  std::vector<int> path;
  std::vector<int> position(waiting.size(), -1);
  while (position[static_cast<size_t>(at)] < 0) {
    position[static_cast<size_t>(at)] = static_cast<int>(path.size());
    path.push_back(at);
    for (int input : inputs[static_cast<size_t>(at)])
      if (waiting[static_cast<size_t>(input)] > 0) {
        at = input;
        break;
      }
  }
  // Found from consumer to producer; printed in the direction of data.
  std::vector<int> cycle(path.begin() + position[static_cast<size_t>(at)], path.end());
  std::ranges::reverse(cycle);
  std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kMost); ++i)
    text += fmt::format("'{}' -> ", graph.node(cycle[i]).name());
  if (cycle.size() > kMost) text += fmt::format("{} more -> ", cycle.size() - kMost);
  return text + fmt::format("'{}'", graph.node(cycle[0]).name());
}

}  // namespace

StatusOr<InputRef> ParseInputRef(std::string_view text) {
  InputRef ref;
  std::string_view rest = text;
  if (rest.starts_with('^')) {
    ref.control = true;
    rest.remove_prefix(1);
  } else if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ref.port);
    if (error != std::errc() || end != digits.data() + digits.size() || ref.port < 0)
      return InvalidArgument("the input '{}' is malformed; inputs are 'node', 'node:port' or '^node'",
                             PrintableName(text));
    rest = rest.substr(0, colon);
  }
  if (rest.empty() || rest.find_first_of(":^") != std::string_view::npos)
    return InvalidArgument("the input '{}' is malformed; inputs are 'node', 'node:port' or '^node'",
                           PrintableName(text));
  ref.node = rest;
  return ref;
}

bool IsNeutral(const proto::AttrValue& value) {
  switch (value.value_case()) {
    case proto::AttrValue::kS:
      return value.s().empty();
    case proto::AttrValue::kI:
      return value.i() == 0;
    case proto::AttrValue::kF:
      return value.f() == 0;
    case proto::AttrValue::kB:
      return !value.b();
    case proto::AttrValue::kList:
      return value.list().ByteSizeLong() == 0;
    default:
      return value.value_case() == proto::AttrValue::VALUE_NOT_SET;
  }
}

// Ties in the order of the message, so that a graph that is read and written again stays as it was.
StatusOr<std::vector<int>> BuildOrder(const proto::GraphDef& graph) {
  RIVULET_ASSIGN_OR_RETURN(const Index index, IndexNodes(graph));
  const size_t count = static_cast<size_t>(graph.node_size());
  std::vector<std::vector<int>> inputs(count), users(count);
  std::vector<int> waiting(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& text : graph.node(i).input()) {
      RIVULET_ASSIGN_OR_RETURN(const InputRef input, ParseInputRef(text));
      const auto found = index.find(input.node);
      if (found == index.end())
        return NotFound("{}: its input '{}' is not in the graph", DescribeNode(graph.node(i)), PrintableName(text));
      inputs[static_cast<size_t>(i)].push_back(found->second);
      users[static_cast<size_t>(found->second)].push_back(i);
      ++waiting[static_cast<size_t>(i)];
    }
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int user : users[static_cast<size_t>(i)])
      if (--waiting[static_cast<size_t>(user)] == 0) ready.push(user);
  }
  if (order.size() < count)
    return InvalidArgument("the graph has a cycle: {}; a graph runs forward only",
                           DescribeCycle(graph, inputs, waiting));
  return order;
}

size_t CountNodes(std::string_view graph_def) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kNodeTag =
      WireFormatLite::MakeTag(proto::GraphDef::kNodeFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(graph_def.data()),
                                            static_cast<int>(graph_def.size()));
  size_t nodes = 0;
  while (const uint32_t tag = in.ReadTag()) {
    nodes += tag == kNodeTag ? 1 : 0;
    if (!WireFormatLite::SkipField(&in, tag)) break;
  }
  return nodes;
}

// Sizes first: all other checks cost in proportion to them.
Status VerifyGraph(const proto::GraphDef& graph, const GraphLimits& limits) {
  if (static_cast<size_t>(graph.node_size()) > limits.nodes)
    return ResourceExhausted("the graph has {} nodes, more than {}", graph.node_size(), limits.nodes);
  RIVULET_ASSIGN_OR_RETURN(const Index index, IndexNodes(graph));
  for (const proto::NodeDef& node : graph.node()) {
    RIVULET_RETURN_IF_ERROR(CheckInputs(node, index, limits));
    RIVULET_RETURN_IF_ERROR(CheckOp(node));
  }
  return BuildOrder(graph).status();
}

}  // namespace rivulet
