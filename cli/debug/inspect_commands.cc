// The commands of `rivulet debug` that inspect a step's results.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>

#include "cli/command.h"
#include "cli/debug/arguments.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/debug/slice.h"
#include "engine/debug/tensor_text.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/io/npy.h"
#include "engine/program/structural_ops.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

std::string Describe(const TensorSpec& spec) { return fmt::format("{}{}", Name(spec.dtype), spec.shape.ToString()); }

std::string Describe(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> texts;
  for (const TensorSpec& spec : specs) texts.push_back(Describe(spec));
  return Join(texts, " ");
}

int64_t BytesOf(const TensorSpec& spec) { return static_cast<int64_t>(TensorBytes(spec)); }

std::string_view Name(TensorRecord::Source source) {
  switch (source) {
    case TensorRecord::Source::kOutput:
      return "made";
    case TensorRecord::Source::kInput:
      return "read";
    case TensorRecord::Source::kVariable:
      return "variable";
  }
  return "";
}

Fields StatisticsFields(const TensorStatistics& s) {
  Fields fields = {{"elements", s.elements},      {"nan", s.nan},           {"-inf", s.negative_infinite},
                   {"+inf", s.positive_infinite}, {"negative", s.negative}, {"zero", s.zero},
                   {"positive", s.positive}};
  if (s.finite() > 0)
    fields.insert(fields.end(), {{"min", s.min}, {"max", s.max}, {"mean", s.mean}, {"deviation", s.deviation}});
  return fields;
}

std::string AttributeText(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return v.size() > 60 ? fmt::format("'{}…'", v.substr(0, 60)) : fmt::format("'{}'", v);
        } else if constexpr (std::is_same_v<T, DType>) {
          return std::string(Name(v));
        } else if constexpr (std::is_same_v<T, Shape>) {
          return v.ToString();
        } else if constexpr (std::is_same_v<T, Tensor>) {
          if (v.empty()) return "none";
          std::string text = Describe(TensorSpec{v.dtype(), v.shape()});
          if (v.elements() <= 8) text += " " + TensorText(v.view());
          return text;
        } else if constexpr (std::is_arithmetic_v<T>) {
          return fmt::format("{}", v);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<float>> ||
                             std::is_same_v<T, std::vector<std::string>>) {
          return fmt::format("[{}]", Join(v, ", "));
        } else if constexpr (requires { v.name; }) {
          return v.name;
        } else {
          return fmt::format("{} values", v.size());
        }
      },
      value);
}

// "dense1/Relu: MatMul + …" mentions 'dense1/Relu', not 'dense1'.
bool Mentions(std::string_view text, std::string_view name) {
  const auto part_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_.\\/>-").find(c) != std::string_view::npos;
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !part_of_name(text[at - 1])) && (end == text.size() || !part_of_name(text[end]))) return true;
  }
  return false;
}

std::string_view WithoutPort(std::string_view tensor) { return tensor.substr(0, tensor.rfind(':')); }

// Makes a file name from a node's name: "a/b:1" → "a_b_1.npy".
std::string FileNameOf(std::string name, std::set<std::string>& taken) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  if (name.starts_with('.')) name = "_" + name;
  std::string unique = name;
  for (int i = 1; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
  return unique + ".npy";
}

}  // namespace

StatusOr<const Node*> DebugShell::NodeCalled(std::string_view name) const {
  const std::string_view node_name = WithoutPort(name);
  if (const Node* node = target_.optimized.graph.Find(node_name)) return node;
  if (const Node* node = target_.graph.Find(node_name)) return node;
  std::vector<std::string> names;
  for (const Graph* graph : {&target_.optimized.graph, &target_.graph})
    for (const auto& node : graph->nodes()) names.push_back(node->name());
  return NotFound("the graph has no node '{}'.{}", node_name, DidYouMean(node_name, names));
}

const Graph& DebugShell::GraphOf(const Node& node) const {
  return target_.optimized.graph.Find(node.name()) == &node ? target_.optimized.graph : target_.graph;
}

int DebugShell::CallOf(std::string_view node) const {
  const Program* program = debugger_.step_program();
  if (program == nullptr) {
    // Nothing has run yet: looks for a node of the program's graph that computes something.
    const Node* found = target_.optimized.graph.Find(node);
    return found != nullptr && StructuralKind(found->type()) == StructuralOp::kNone ? 0 : -1;
  }
  const auto calls = program->instructions();
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].node == node && !IsCopy(calls[i])) return static_cast<int>(i);
  return -1;
}

std::string DebugShell::WhyNoCall(const Node& node) const {
  switch (StructuralKind(node.type())) {
    case StructuralOp::kConst:
      return "is a constant, which no call makes";
    case StructuralOp::kPlaceholder:
      return "is fed";
    case StructuralOp::kVariable:
      return "is a variable; calls work on its memory";
    case StructuralOp::kNoOp:
      return "computes nothing; it only orders other nodes";
    case StructuralOp::kView:
      return "is its input's memory under another shape, and needs no call";
    case StructuralOp::kRead:
      return "reads its variable in place, and needs no call";
    case StructuralOp::kAssign:
    case StructuralOp::kNone:
      break;
  }
  for (const PassReport& pass : target_.optimized.report)
    for (const std::string& rewrite : pass.rewrites)
      if (Mentions(rewrite, node.name()))
        return fmt::format("is no separate call: the pass {} made \"{}\"; start with --no-passes to see it", pass.pass,
                           rewrite);
  if (target_.optimized.graph.Find(node.name()) != nullptr)
    return "is no separate call: the pass fuse_updates merged it into another one; start with --no-passes to see it";
  // A rewrite names the remaining node; removed nodes had only that one consumer.
  for (const Node* user = &node;;) {
    const std::vector<Node*> users = target_.graph.Consumers(const_cast<Node*>(user)->output());
    if (users.size() != 1) break;
    user = users[0];
    for (const PassReport& pass : target_.optimized.report)
      for (const std::string& rewrite : pass.rewrites)
        if (Mentions(rewrite, user->name()))
          return fmt::format(
              "is no separate call: it became part of '{}', of which the pass {} made \"{}\"; start with --no-passes "
              "to see it",
              user->name(), pass.pass, rewrite);
  }
  return "is left out: nothing that the step computes needs it, or another node computes the same";
}

StatusOr<Tensor> DebugShell::TensorCalled(std::string_view name) const {
  const Recorder& recorder = debugger_.recorder();
  if (const TensorRecord* record = recorder.Find(name)) {
    if (!record->value.empty()) return record->value;
    return ResourceExhausted("the values of '{}' ({}, {} bytes) were not kept; raise --memory, or look at 'pt {} -s'",
                             record->name, Describe(record->spec), BytesOf(record->spec), record->name);
  }
  RIVULET_ASSIGN_OR_RETURN(const Node* node, NodeCalled(name));
  if (const Tensor* value = node->FindAttr<Tensor>("value"); value != nullptr && node->type() == "Const") return *value;
  switch (StructuralKind(node->type())) {
    case StructuralOp::kView: {
      if (node->inputs().empty()) break;
      StatusOr<Tensor> source = TensorCalled(node->input(0).name());
      if (!source.ok()) return source;
      const Shape& shape = node->outputs()[0].shape;
      if (!shape.IsFullyKnown() || shape.elements() != source->elements()) return source;
      RIVULET_ASSIGN_OR_RETURN(Tensor view, Tensor::Create(source->dtype(), shape));
      std::copy_n(source->data(), source->bytes(), view.data());
      return view;
    }
    case StructuralOp::kVariable:
    case StructuralOp::kRead: {
      const Node& handle = node->type() == "VarHandleOp" ? *node : *node->input(0).node;
      if (handle.type() == "VarHandleOp")
        if (const TensorRecord* record = recorder.Find(VariableName(handle)); record != nullptr) return record->value;
      // The value that a call read from it.
      for (const Node* reader : GraphOf(*node).Consumers(const_cast<Node&>(handle).output()))
        if (const TensorRecord* record = recorder.Find(reader->name()); record != nullptr) return record->value;
      break;
    }
    default:
      break;
  }
  if (recorder.records().empty()) return FailedPrecondition("nothing has run yet; say run or step first");
  if (CallOf(node->name()) >= 0)
    return FailedPrecondition("'{}' has not run in this step so far; say run, or break {}", node->name(), node->name());
  return FailedPrecondition("'{}' {}", node->name(), WhyNoCall(*node));
}

std::string_view DebugShell::OpOf(const TensorRecord& record) const {
  if (record.source == TensorRecord::Source::kInput)
    for (const Graph* graph : {&target_.optimized.graph, &target_.graph})
      if (const Node* node = graph->Find(WithoutPort(record.name))) return node->type();
  return record.op;
}

Status DebugShell::ListTensors(const Arguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const std::regex names, arguments.Regex('n'));
  RIVULET_ASSIGN_OR_RETURN(const std::regex ops, arguments.Regex('t'));
  std::optional<WatchCondition> condition;
  if (arguments.Has('f')) {
    StatusOr<WatchCondition> parsed = WatchCondition::Parse(arguments.Value('f'));
    if (!parsed.ok()) return AsUsageError(parsed.status());
    condition = *std::move(parsed);
  }
  std::vector<const TensorRecord*> records;
  for (const TensorRecord& record : debugger_.recorder().records()) {
    if (!std::regex_search(record.name, names) || !std::regex_search(std::string(OpOf(record)), ops)) continue;
    if (!condition || condition->Holds(record.statistics)) records.push_back(&record);
  }
  const std::string by = arguments.Has('s') ? arguments.Value('s') : "dump";
  const auto sort = [&](auto key) { std::ranges::stable_sort(records, {}, key); };
  if (by == "name") {
    sort([](const TensorRecord* r) { return std::string_view(r->name); });
  } else if (by == "op") {
    sort([this](const TensorRecord* r) { return OpOf(*r); });
  } else if (by == "size") {
    sort([](const TensorRecord* r) { return BytesOf(r->spec); });
  } else if (by == "time") {
    sort([](const TensorRecord* r) { return r->seconds; });
  } else if (by != "dump") {
    return UsageError("lt sorts by name, op, size, time or dump, not by '{}'", by);
  }
  if (arguments.Has('r')) std::ranges::reverse(records);
  Table table(
      {{"tensor"}, {"op"}, {"value"}, {"bytes"}, {"ms", false, 3}, {"from"}, {"nan"}, {"inf"}, {"times", true}});
  for (const TensorRecord* record : records)
    table.Add({record->name, std::string(OpOf(*record)), Describe(record->spec), BytesOf(record->spec),
               record->seconds > 0 ? Cell(record->seconds * 1000) : Cell(), std::string(Name(record->source)),
               record->statistics.nan > 0 ? Cell(record->statistics.nan) : Cell(),
               record->statistics.infinite() > 0 ? Cell(record->statistics.infinite()) : Cell(), record->times});
  Print(table, debugger_.recorder().records().empty() ? "nothing has run yet; say run or step" : "no such tensor");
  return absl::OkStatus();
}

Status DebugShell::PrintTensor(const Arguments& arguments) {
  const std::string& text = arguments.words[0];
  const size_t bracket = std::min(text.find('['), text.size());
  const std::string name = text.substr(0, bracket);
  const TensorRecord* record = debugger_.recorder().Find(name);
  Fields header = {{"tensor", name}};
  if (arguments.Has('s') && record != nullptr && bracket == text.size() && record->value.empty()) {
    // There are statistics even for values that were not stored.
    header.emplace_back("value", Describe(record->spec));
    const Fields statistics = StatisticsFields(record->statistics);
    header.insert(header.end(), statistics.begin(), statistics.end());
    Print(header);
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(Tensor tensor, TensorCalled(name));
  if (bracket < text.size()) {
    StatusOr<Tensor> slice = SliceOf(tensor.view(), text.substr(bracket));
    if (!slice.ok()) return AsUsageError(Annotate(slice.status(), name));
    tensor = *std::move(slice);
    header.emplace_back("slice", text.substr(bracket));
  }
  header.emplace_back("value", Describe(TensorSpec{tensor.dtype(), tensor.shape()}));
  TensorTextOptions how;
  if (arguments.Has('a')) how.summarise_above = 0;
  if (arguments.Has('r')) {
    const std::string range = arguments.Value('r');
    double min = 0, max = 0;
    const size_t comma = range.find(',');
    const char* end = range.data() + range.size();
    const char* second = comma == std::string::npos ? end : range.data() + comma + 1;
    if (comma == std::string::npos || std::from_chars(range.data(), range.data() + comma, min).ptr != second - 1 ||
        std::from_chars(second, end, max).ptr != end || second == end || comma == 0)
      return UsageError("-r takes MIN,MAX, not '{}'", range);
    how.highlight = {min, max};
  }
  if (arguments.Has('w')) {
    RIVULET_RETURN_IF_ERROR(WriteNpy(FileSystem::Default(), arguments.Value('w'), tensor.view()));
    header.emplace_back("written_to", arguments.Value('w'));
  }
  if (arguments.Has('s')) {
    const Fields statistics = StatisticsFields(StatisticsOf(tensor.view()));
    header.insert(header.end(), statistics.begin(), statistics.end());
    Print(header);
    return absl::OkStatus();
  }
  if (arguments.Has('w')) {
    Print(header);
    return absl::OkStatus();
  }
  if (!options_.json) {
    fmt::print("{} {}{}:\n{}\n", name, bracket < text.size() ? text.substr(bracket) + " " : "",
               Describe(TensorSpec{tensor.dtype(), tensor.shape()}), TensorText(tensor.view(), how));
    return absl::OkStatus();
  }
  Json json = ToJson(header);
  Json values = Json::Array();
  const int64_t shown = arguments.Has('a') ? tensor.elements() : std::min<int64_t>(tensor.elements(), 1000);
  for (int64_t i = 0; i < shown; ++i) values.Append(ElementOf(tensor.view(), i));  // NaN and infinities are null
  json["shape"] = std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end());
  json["values"] = std::move(values);
  json["statistics"] = ToJson(StatisticsFields(StatisticsOf(tensor.view())));
  fmt::print("{}\n", json.Dump());
  return absl::OkStatus();
}

Status DebugShell::NodeInfo(const Arguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const Node* node, NodeCalled(arguments.words[0]));
  const bool original = &GraphOf(*node) == &target_.graph;
  std::vector<std::string> inputs, before;
  for (const Output& input : node->inputs()) inputs.push_back(input.name());
  for (const Node* each : node->control_inputs()) before.push_back(each->name());
  Fields fields = {{"node", node->name()},
                   {"op", std::string(node->type())},
                   {"device", node->device().empty() ? std::string("CPU") : node->device()},
                   {"built_at", TextCell(SourceLineOf(node->name(), node->source_line()))},
                   {"outputs", TextCell(Describe({node->outputs().begin(), node->outputs().end()}))},
                   {"inputs", TextCell(Join(inputs, ", "))},
                   {"waits_for", TextCell(Join(before, ", "))}};
  for (const auto& [name, value] : node->attrs()) fields.emplace_back("attr " + name, AttributeText(value));
  const int call = CallOf(node->name());
  if (original || call < 0) {
    fields.emplace_back("call", fmt::format("none: it {}", WhyNoCall(*node)));
  } else if (const Program* program = debugger_.step_program()) {
    const Instruction& instruction = program->instructions()[static_cast<size_t>(call)];
    fields.insert(fields.end(), {{"call", fmt::format("{} of {}", call + 1, program->instructions().size())},
                                 {"implementation", instruction.implementation},
                                 {"flops", instruction.flops > 0 ? Cell(instruction.flops) : Cell()},
                                 {"arena_bytes", static_cast<int64_t>(instruction.arena_bytes)}});
  }
  if (const TensorRecord* record = debugger_.recorder().Find(node->name()); record != nullptr && record->seconds > 0)
    fields.emplace_back("ms", record->seconds * 1000);
  if (arguments.Has('t')) {
    fields.emplace_back("op_registered_at", TextCell(node->op().registered_at));
    fields.emplace_back("op_doc", node->op().doc);
  }
  Print(fields);
  if (!arguments.Has('d')) return absl::OkStatus();
  Table table({{"tensor"}, {"value"}, {"nan"}, {"inf"}, {"min"}, {"max"}, {"mean"}, {"times"}});
  for (const TensorRecord& record : debugger_.recorder().records()) {
    if (record.node != node->name() || record.source == TensorRecord::Source::kInput) continue;
    const TensorStatistics& s = record.statistics;
    table.Add({record.name, Describe(record.spec), s.nan, s.infinite(), s.min, s.max, s.mean, record.times});
  }
  Print(table, "nothing of it was recorded in this step");
  return absl::OkStatus();
}

Status DebugShell::ListEdges(const Arguments& arguments, bool inputs) {
  RIVULET_ASSIGN_OR_RETURN(const Node* root, NodeCalled(arguments.words[0]));
  RIVULET_ASSIGN_OR_RETURN(const int64_t depth, arguments.Number('d', arguments.Has('r') ? 20 : 1));
  const Graph& graph = GraphOf(*root);
  struct Row {
    int64_t depth;
    const Node* node;
    std::string edge;
  };
  std::vector<Row> rows;
  std::set<const Node*> seen = {root};
  const auto visit = [&](const auto& self, const Node* node, int64_t level) -> void {
    if (level > depth || rows.size() > 10'000) return;
    const auto add = [&](const Node* next, std::string edge) {
      rows.push_back({level, next, std::move(edge)});
      if (seen.insert(next).second) self(self, next, level + 1);
    };
    if (inputs) {
      for (const Output& input : node->inputs()) add(input.node, input.name());
      if (arguments.Has('c'))
        for (const Node* before : node->control_inputs()) add(before, "^" + before->name());
      return;
    }
    std::set<const Node*> users;
    for (const auto& user : graph.nodes()) {
      for (size_t i = 0; i < user->inputs().size(); ++i)
        if (user->inputs()[i].node == node && users.insert(user.get()).second)
          add(user.get(), fmt::format("{} of {}", i, user->inputs().size()));
      if (arguments.Has('c') && std::ranges::find(user->control_inputs(), node) != user->control_inputs().end() &&
          users.insert(user.get()).second)
        add(user.get(), "^");
    }
  };
  visit(visit, root, 1);
  Table table({{"node"}, {"op"}, {"value"}, {inputs ? "tensor" : "as_input", true}, {"depth", true}});
  for (const Row& row : rows)
    table.Add(
        {options_.json ? row.node->name() : std::string(2 * static_cast<size_t>(row.depth - 1), ' ') + row.node->name(),
         std::string(row.node->type()), TextCell(Describe({row.node->outputs().begin(), row.node->outputs().end()})),
         row.edge, row.depth});
  Print(table, inputs ? "no inputs" : "it has no consumers");
  return absl::OkStatus();
}

Status DebugShell::ListInputs(const Arguments& arguments) { return ListEdges(arguments, true); }
Status DebugShell::ListOutputs(const Arguments& arguments) { return ListEdges(arguments, false); }

Status DebugShell::RunInfo(const Arguments&) {
  Fields fields = {{"what", target_.title}};
  fields.insert(fields.end(), target_.facts.begin(), target_.facts.end());
  std::vector<std::string> feeds;
  for (const FeedSpec& feed : target_.signature.feeds)
    feeds.push_back(fmt::format("{} {}", feed.tensor, Describe(feed.spec)));
  fields.insert(fields.end(), {{"feeds", Join(feeds, ", ")},
                               {"fetches", TextCell(Join(target_.signature.fetches, ", "))},
                               {"targets", TextCell(Join(target_.signature.targets, ", "))},
                               {"variables", static_cast<int64_t>(target_.signature.variables.size())},
                               {"nodes", static_cast<int64_t>(target_.graph.nodes().size())},
                               {"nodes_after_passes", static_cast<int64_t>(target_.optimized.graph.nodes().size())},
                               {"passes_left_out", TextCell(Join(target_.options.passes.without, ", "))},
                               {"steps_finished", debugger_.steps()}});
  if (const Program* program = debugger_.step_program()) {
    fields.insert(fields.end(), {{"calls", static_cast<int64_t>(program->instructions().size())},
                                 {"arena_bytes", static_cast<int64_t>(program->memory().arena_bytes)},
                                 {"constant_bytes", static_cast<int64_t>(program->memory().constant_bytes)},
                                 {"flops", program->flops()}});
  }
  if (over_) {
    fields.emplace_back("outcome", outcome_);
  } else if (stop_) {
    fields.emplace_back("stands_after", stop_->node);
  }
  fields.insert(fields.end(), {{"tensors", static_cast<int64_t>(debugger_.recorder().records().size())},
                               {"tensor_bytes", static_cast<int64_t>(debugger_.recorder().kept_bytes())},
                               {"memory_limit", static_cast<int64_t>(options_.memory_bytes)}});
  Print(fields);
  return absl::OkStatus();
}

Status DebugShell::PrintSource(const Arguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const std::regex files, arguments.Regex('n'));
  // By file, then by number: "mlp.cc:9" before "mlp.cc:10".
  std::map<std::pair<std::string, int64_t>, std::vector<const Node*>> lines;
  for (const auto& node : target_.graph.nodes()) {
    const std::string line = SourceLineOf(node->name(), node->source_line());
    if (line.empty() || !std::regex_search(line, files)) continue;
    const size_t colon = line.rfind(':');
    int64_t number = 0;
    std::from_chars(line.data() + colon + 1, line.data() + line.size(), number);
    lines[{line.substr(0, colon), number}].push_back(node.get());
  }
  Table table({{"built_at"}, {"nodes"}, {"which", false, 4, 100}});
  for (const auto& [line, nodes] : lines) {
    std::vector<std::string> names;
    for (const Node* node : nodes) names.push_back(fmt::format("{} ({})", node->name(), node->type()));
    table.Add({fmt::format("{}:{}", line.first, line.second), static_cast<int64_t>(nodes.size()), Join(names, ", ")});
  }
  Print(table, "no node has its source line; graphs from files have none");
  return absl::OkStatus();
}

Status DebugShell::Dump(const Arguments& arguments) {
  RIVULET_ASSIGN_OR_RETURN(const std::regex names, arguments.Regex('n'));
  if (debugger_.recorder().records().empty()) return FailedPrecondition("nothing has run yet; say run or step first");
  const std::string& folder = arguments.words[0];
  FileSystem& fs = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
  std::set<std::string> taken;
  Json index = Json::Array();
  int64_t bytes = 0, left_out = 0;
  for (const TensorRecord& record : debugger_.recorder().records()) {
    if (!std::regex_search(record.name, names)) continue;
    if (record.value.empty() || record.spec.dtype == DType::kVariant) {
      ++left_out;
      continue;
    }
    const std::string file = FileNameOf(record.name, taken);
    RIVULET_RETURN_IF_ERROR(WriteNpy(fs, JoinPath(folder, file), record.value.view()));
    bytes += BytesOf(record.spec);
    Json entry = {{"tensor", record.name},
                  {"file", file},
                  {"node", record.node},
                  {"op", record.op},
                  {"dtype", std::string(Name(record.spec.dtype))},
                  {"shape", std::vector<int64_t>(record.spec.shape.dims().begin(), record.spec.shape.dims().end())},
                  {"statistics", ToJson(StatisticsFields(record.statistics))}};
    index.Append(std::move(entry));
  }
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, "index.json"), index.Dump(1) + "\n"));
  Print(Fields{{"folder", folder},
               {"files", static_cast<int64_t>(index.size())},
               {"bytes", bytes},
               {"left_out", left_out > 0 ? Cell(left_out) : Cell()}});
  return absl::OkStatus();
}

}  // namespace rivulet
