// rivulet graph build: compiles a user's local rule from a few lines of text to the file for `algorithm.graph`.
#include "cli/graph/build.h"

#include <memory>

#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "engine/graphdef/graph_def.h"
#include "federated/local_rules/own_rule.h"
#include "federated/local_rules/rule_graph.h"
#include "federated/local_rules/rule_nodes.h"

namespace rivulet {
namespace {

struct BuildOptions {
  std::string rule, out;
  bool json = false;
};

Json JsonOf(const OwnRule& rule, const std::string& out) {
  return {{"file", out},
          {"nodes", rule.graph().nodes().size()},
          {"settings", rule.settings()},
          {"memory", rule.memory()},
          {"state", rule.state()},
          {"broadcast", rule.broadcast()},
          {"update", rule.update()}};
}

Status Build(const BuildOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const std::string text, FileSystem::Default().ReadAll(options.rule));
  const StatusOr<Graph> graph = BuildRule(text);
  // FILE:LINE:COLUMN, as in compilers.
  if (!graph.ok()) {
    return Status(graph.status().code(), ToAbsl(fmt::format("{}:{}", options.rule, Message(graph.status()))));
  }
  const std::string bytes = SerializeGraph(*graph);
  // Read back as a plan's composer will read it.
  const StatusOr<OwnRule> opened = OwnRule::Open(bytes);
  if (!opened.ok()) return Annotate(opened.status(), options.rule);
  const OwnRule& rule = *opened;
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), options.out, bytes));
  if (options.json) {
    fmt::print("{}\n", JsonOf(rule, options.out).Dump());
  } else {
    fmt::print("{}: {} nodes\n{}", options.out, rule.graph().nodes().size(), Describe(rule));
  }
  return absl::OkStatus();
}

}  // namespace

Command GraphBuildCommand() {
  auto options = std::make_shared<BuildOptions>();
  std::string functions;
  for (const RuleFunction& function : RuleFunctions())
    functions += fmt::format("{}{}", functions.empty() ? "" : ", ", function.call);
  Command build{.name = "build",
                .summary = "Build the graph of a local rule (algorithm.graph) from a few lines of text.",
                .example =
                    "rivulet graph build rule.txt --out rule.pb\n  "
                    "rivulet simulate quickstart --set algorithm.graph=rule.pb --set algorithm.mu=0.01"};
  build
      .Positional("RULE.txt", &options->rule,
                  fmt::format("lines NAME = EXPRESSION: mu = 0.1, and below it gradient = grad + mu * (params - base); "
                              "docs/guide/local-rules.md has the language. Functions: {}",
                              functions))
      .Required("--out", "FILE.pb", &options->out, "the graph file to write")
      .Flag("--json", &options->json, "print one JSON object");
  build.run = [options] { return Build(*options); };
  return build;
}

}  // namespace rivulet
