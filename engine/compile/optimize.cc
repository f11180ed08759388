#include "engine/compile/optimize.h"

#include "engine/base/vlog.h"
#include "engine/passes/graph_editor.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

// A pass may create work for an earlier one: merged nodes become neighbours, and folded ones lose their users.
constexpr int kRounds = 2;

}  // namespace

StatusOr<OptimizedGraph> OptimizeGraph(const ConcreteGraph& concrete, const Signature& signature,
                                       const CompileOptions& options) {
  RIVULET_RETURN_IF_ERROR(CheckPassOptions(options.passes));
  OptimizedGraph optimized;
  PassReport prune{"prune", concrete.graph().nodes().size(), concrete.schedule().size(), {}};
  StatusOr<GraphEditor> editor = GraphEditor::Create(concrete, signature);
  // A graph that the editor cannot represent is still valid. Passes are optional improvements.
  if (!editor.ok()) {
    prune.rewrites.push_back(fmt::format("the graph is left as it is: {}", Message(editor.status())));
    optimized.report.push_back(std::move(prune));
    optimized.graph = concrete.graph().Clone();
    return optimized;
  }
  editor->Prune();
  prune.nodes_after = editor->size();
  optimized.report.push_back(std::move(prune));
  PassReport folded{"fold_constants", editor->size(), editor->size(), {}};
  for (const Node* node : concrete.schedule()) {
    if (concrete.IsConstant(*node) && node->type() != "Const")
      folded.rewrites.push_back(fmt::format("{}: the value of this {} is known", node->name(), node->type()));
  }
  optimized.report.push_back(std::move(folded));

  // The last round is that of the passes that run once.
  // The passes that run once come last and alone, because they undo on purpose what the others would do again:
  // recomputation duplicates nodes that the next round of common subexpressions would merge.
  bool changed = true;
  for (int round = 0; round <= kRounds; ++round) {
    if (!changed && round < kRounds) continue;
    changed = false;
    for (const Pass& pass : Passes()) {
      if (pass.run == nullptr || !options.passes.Runs(pass.name) || pass.last != (round == kRounds)) continue;
      std::vector<std::string> log;
      PassContext context{options.kernels, options.passes, log};
      const size_t before = editor->size();
      RIVULET_RETURN_IF_ERROR(Annotate(pass.run(*editor, context), fmt::format("the pass {}", pass.name)));
      // At once and not at the end: patterns ask for a single user, and a dead node would count as one.
      if (!log.empty()) editor->Prune();
      RIVULET_VLOG(1, "pass {}, round {}: {} rewrites, {} nodes, before {}", pass.name, round, log.size(),
                   editor->size(), before);
      for (const std::string& rewrite : log) RIVULET_VLOG(2, "pass {}: {}", pass.name, rewrite);
      changed = changed || !log.empty();
      // A later round runs every pass again; only those that found work are reported.
      if (round == 0 || pass.last || !log.empty())
        optimized.report.push_back({std::string(pass.name), before, editor->size(), std::move(log)});
    }
  }
  RIVULET_ASSIGN_OR_RETURN(optimized.graph, editor->Finish());
  return optimized;
}

StatusOr<OptimizedGraph> OptimizeGraph(const Graph& graph, const Signature& signature, const CompileOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const ConcreteGraph concrete, ConcreteGraph::Build(graph, signature, options));
  return OptimizeGraph(concrete, signature, options);
}

}  // namespace rivulet
