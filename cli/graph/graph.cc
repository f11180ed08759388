// rivulet graph: graphs before and after the passes, for people and programs.

#include <chrono>
#include <memory>

#include "cli/command.h"
#include "cli/graph/build.h"
#include "cli/graph/place.h"
#include "cli/graph/profile.h"
#include "cli/graph/source.h"
#include "cli/graph/worker.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/compile/compile.h"
#include "engine/compile/optimize.h"
#include "engine/data/event_file.h"
#include "engine/graph/drawing.h"
#include "engine/graphdef/graph_def.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

struct GraphOptions {
  GraphSourceOptions source;
  std::string format = "text";
  bool json = false;
  std::string tensorboard;
  std::vector<std::string> only, without;  // passes
  bool rewrites = false;
  std::optional<int64_t> memory_budget;
  std::string out;
};

std::string DescribeSpec(const TensorSpec& spec) {
  return fmt::format("{}{}", Name(spec.dtype), spec.shape.ToString());
}

// Names of the first inputs; for a sum of a hundred, the number of the rest.
std::string InputNames(const Node& node) {
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  for (const Output& input : node.inputs()) names.push_back(input.name());
  for (const Node* before : node.control_inputs()) names.push_back("^" + before->name());
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(std::min(names.size(), kShown));
  return fmt::format("{}{}", Join(names, ", "), more > 0 ? fmt::format(", and {} more", more) : "");
}

Table NodeTable(const Graph& graph) {
  Table table({{"node"}, {"op"}, {"output"}, {"inputs", false, 4, 72}, {"built_at", true}});
  for (const auto& node : graph.nodes()) {
    std::vector<std::string> outputs;
    for (const TensorSpec& output : node->outputs()) outputs.push_back(DescribeSpec(output));
    table.Add({node->name(), std::string(node->type()), Join(outputs, " "), InputNames(*node),
               TextCell(node->source_line())});
  }
  return table;
}

Table CallTable(const Program& program) {
  Table table({{"node"}, {"op"}, {"implementation"}, {"output"}, {"mflop", false, 3}, {"arena_bytes"}});
  for (const Instruction& call : program.instructions()) {
    std::vector<std::string> outputs;
    for (const TensorSpec& output : call.outputs) outputs.push_back(DescribeSpec(output));
    table.Add({call.node, call.op, call.implementation, TextCell(Join(outputs, " ")),
               call.flops > 0 ? Cell(call.flops / 1e6) : Cell(),
               call.arena_bytes > 0 ? Cell(static_cast<int64_t>(call.arena_bytes)) : Cell()});
  }
  return table;
}

Status CheckFormat(GraphOptions& options) {
  if (options.json) options.format = "json";
  if (options.format == "text" || options.format == "dot" || options.format == "json") return absl::OkStatus();
  return UsageError("--format is '{}'; there is text, dot and json", options.format);
}

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Status WriteEvents(const std::string& folder, const Graph& graph) {
  RIVULET_ASSIGN_OR_RETURN(const Graph drawn, WithOutputShapes(graph));
  RIVULET_ASSIGN_OR_RETURN(const std::string path,
                           WriteGraphEvent(FileSystem::Default(), folder, SerializeGraph(drawn), Now()));
  fmt::print(stderr, "{}: open with tensorboard --logdir {}\n", path, folder);
  return absl::OkStatus();
}

Status Inspect(GraphOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckFormat(options));
  RIVULET_ASSIGN_OR_RETURN(const GraphSource source, LoadGraphSource(options.source));
  if (!options.tensorboard.empty()) RIVULET_RETURN_IF_ERROR(WriteEvents(options.tensorboard, source.graph));
  if (options.format == "dot") {
    fmt::print("{}", ToDot(source.graph));
    return absl::OkStatus();
  }
  const Table nodes = NodeTable(source.graph);
  if (options.format == "json") {
    const Json json = {{"graph", source.title}, {"parameters", source.parameters}, {"nodes", nodes.Rows()}};
    fmt::print("{}\n", json.Dump());
    return absl::OkStatus();
  }
  fmt::print("{}: {} nodes, {} parameters\n\n{}", source.title, source.graph.nodes().size(), source.parameters,
             nodes.Text());
  return absl::OkStatus();
}

StatusOr<PassOptions> PassesOf(const GraphOptions& options) {
  PassOptions passes;
  passes.without = options.without;
  passes.memory_budget_bytes = static_cast<size_t>(options.memory_budget.value_or(0));
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckPassOptions(passes)));
  if (options.only.empty()) return passes;
  PassOptions named{.without = options.only};
  const Status known = CheckPassOptions(named);
  if (absl::IsNotFound(known)) return AsUsageError(known);
  for (const Pass& pass : Passes()) {
    if (pass.optional && std::find(options.only.begin(), options.only.end(), pass.name) == options.only.end())
      passes.without.emplace_back(pass.name);
  }
  return passes;
}

struct Compiled {
  std::shared_ptr<const Program> program;
  OptimizedGraph optimized;
  double milliseconds = 0;
};

StatusOr<Compiled> Compile(const GraphSource& source, const CompileOptions& options) {
  Compiled compiled{};
  const auto start = std::chrono::steady_clock::now();
  RIVULET_ASSIGN_OR_RETURN(compiled.program,
                           CompileProgram(source.graph, source.signature, options, &compiled.optimized));
  compiled.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

Json Totals(size_t nodes, const Program& program) {
  return {{"nodes", nodes},
          {"calls", program.instructions().size()},
          {"flop", program.flops()},
          {"arena_bytes", program.memory().arena_bytes},
          {"constant_bytes", program.memory().constant_bytes}};
}

std::string TotalsLine(std::string_view when, size_t nodes, const Program& program) {
  return fmt::format("{:<7}{:>5} nodes, {:>4} calls, {:.1f} MFLOP, {:.1f} KiB of arena, {:.1f} KiB of constants\n",
                     when, nodes, program.instructions().size(), program.flops() / 1e6,
                     static_cast<double>(program.memory().arena_bytes) / 1024,
                     static_cast<double>(program.memory().constant_bytes) / 1024);
}

Status Optimize(GraphOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckFormat(options));
  CompileOptions with, none;
  RIVULET_ASSIGN_OR_RETURN(with.passes, PassesOf(options));
  for (const Pass& pass : Passes())
    if (pass.optional) none.passes.without.emplace_back(pass.name);
  RIVULET_ASSIGN_OR_RETURN(const GraphSource source, LoadGraphSource(options.source));
  with.kernels = none.kernels = source.kernels;
  EnterWorkerThread();
  RIVULET_ASSIGN_OR_RETURN(const Compiled after, Compile(source, with));
  const OptimizedGraph& optimized = after.optimized;
  if (!options.out.empty())
    RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), options.out, SerializeGraph(optimized.graph)));
  if (!options.tensorboard.empty()) {
    RIVULET_RETURN_IF_ERROR(WriteEvents(options.tensorboard + "/before", source.graph));
    RIVULET_RETURN_IF_ERROR(WriteEvents(options.tensorboard + "/after", optimized.graph));
  }
  if (options.format == "dot") {
    fmt::print("{}", ToDot(optimized.graph));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const Compiled before, Compile(source, none));
  const Table calls = CallTable(*after.program);
  if (options.format == "json") {
    Json passes = Json::Array();
    for (const PassReport& report : optimized.report)
      passes.Append({{"pass", report.pass},
                     {"nodes_before", report.nodes_before},
                     {"nodes_after", report.nodes_after},
                     {"rewrites", report.rewrites}});
    const Json json = {{"graph", source.title},
                       {"parameters", source.parameters},
                       {"passes", passes},
                       {"before", Totals(source.graph.nodes().size(), *before.program)},
                       {"after", Totals(optimized.graph.nodes().size(), *after.program)},
                       {"compile_milliseconds", after.milliseconds},
                       {"calls", calls.Rows()}};
    fmt::print("{}\n", json.Dump());
    return absl::OkStatus();
  }
  fmt::print("{}: {} parameters\n\n", source.title, source.parameters);
  Table passes({{"pass"}, {"nodes_before"}, {"nodes_after"}, {"rewrites"}});
  for (const PassReport& report : optimized.report)
    passes.Add({report.pass, static_cast<int64_t>(report.nodes_before), static_cast<int64_t>(report.nodes_after),
                static_cast<int64_t>(report.rewrites.size())});
  fmt::print("{}\n", passes.Text());
  if (options.rewrites) {
    for (const PassReport& report : optimized.report)
      for (const std::string& line : report.rewrites) fmt::print("{}: {}\n", report.pass, line);
    fmt::print("\n");
  }
  fmt::print("{}\n{}{}compiled in {:.1f} ms\n", calls.Text(),
             TotalsLine("before", source.graph.nodes().size(), *before.program),
             TotalsLine("after", optimized.graph.nodes().size(), *after.program), after.milliseconds);
  return absl::OkStatus();
}

void AddSourceOptions(Command& command, GraphOptions& options) {
  command
      .Positional("WHAT", &options.source.what,
                  "a graph file (.pb, .pbtxt), a scenario (.toml, or a name of 'rivulet scenarios') or a preset's name")
      .Option("--batch", "N", &options.source.batch, "examples at once [the scenario's, or 10]", {1, 1 << 20})
      .Flag("--training", &options.source.training,
            "use a training step: gradients and SGD; for a scenario, its clients' step")
      .Repeated("--fetch", "TENSOR", &options.source.fetches,
                "for a graph file: a tensor to compute [all without consumers]")
      .Option("--loss", "TENSOR", &options.source.loss, "for a graph file with --training: the loss [loss]")
      .Option("--format", "FORMAT", &options.format, "text, dot (for Graphviz) or json [text]")
      .Flag("--json", &options.json, "the same as --format json")
      .Option("--tensorboard", "DIR", &options.tensorboard, "write event files for TensorBoard too");
}

const RegisterCommand kGraph(65, [] {
  auto options = std::make_shared<GraphOptions>();
  Command inspect{.name = "inspect",
                  .summary = "List the nodes of a graph without changes.",
                  .example =
                      "rivulet graph inspect mnist_cnn --training\n  "
                      "rivulet graph inspect model.pb --format dot | dot -Tsvg > model.svg"};
  AddSourceOptions(inspect, *options);
  inspect.run = [options] {
    options->source.only_look = true;
    return Inspect(*options);
  };

  std::vector<std::string> names;
  for (const Pass& pass : Passes()) names.emplace_back(pass.name);
  Command optimize{.name = "optimize",
                   .summary = "Show the graph after all passes, and the calls of the compiled program.",
                   .example =
                       "rivulet graph optimize mnist_cnn --training --rewrites\n  "
                       "rivulet graph optimize model.pb --without fuse_products --out smaller.pb\n  "
                       "rivulet graph optimize quickstart --training --tensorboard events"};
  AddSourceOptions(optimize, *options);
  optimize.Repeated("--pass", "NAME", &options->only, fmt::format("run only this pass: {}", Join(names, ", ")))
      .Repeated("--without", "NAME", &options->without, "run all passes except this")
      .Option("--memory-budget", "BYTES", &options->memory_budget,
              "limit of the arena; values are recomputed to fit [no limit]", {1, INT64_MAX})
      .Flag("--rewrites", &options->rewrites, "list every rewrite too")
      .Option("--out", "FILE.pb", &options->out, "write the optimised graph, with the shapes of this batch");
  optimize.run = [options] { return Optimize(*options); };

  Command command{.name = "graph",
                  .summary =
                      "Inspect dataflow graphs before and after the passes, build one of a local rule, or run one over "
                      "several processes.",
                  .example = "rivulet graph optimize mnist_cnn --training"};
  command.subcommands = {std::move(inspect),    std::move(optimize), GraphPlaceCommand(),
                         GraphProfileCommand(), GraphBuildCommand(), GraphWorkerCommand()};
  return command;
});

}  // namespace
}  // namespace rivulet
