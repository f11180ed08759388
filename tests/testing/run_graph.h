// Compiles a graph for given feeds and runs it, for tests that want values rather than programs.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "engine/program/program.h"

namespace rivulet::testing {

using Feeds = std::vector<std::pair<std::string, Tensor>>;

// A compiled graph with its memory. Run may be called often, with feeds of the same shapes. Not thread-safe.
class CompiledGraph {
 public:
  // `feeds` give names and shapes; their values do not matter yet.
  static StatusOr<CompiledGraph> Compile(const Graph& graph, const Feeds& feeds, std::vector<std::string> fetches,
                                         const CompileOptions& options = {}) {
    EnterWorkerThread();
    Signature signature;
    for (const auto& [name, tensor] : feeds) signature.feeds.push_back({name, {tensor.dtype(), tensor.shape()}});
    signature.fetches = std::move(fetches);
    CompiledGraph compiled;
    RIVULET_ASSIGN_OR_RETURN(compiled.program_, CompileProgram(graph, signature, options));
    RIVULET_ASSIGN_OR_RETURN(compiled.instance_, compiled.program_->Instantiate());
    compiled.arena_ = AlignedBuffer(compiled.program_->memory().arena_bytes);
    return compiled;
  }

  const Program& program() const { return *program_; }

  StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const StreamKey& stream = {}, uint64_t step = 0) {
    std::vector<Tensor> fetched;
    std::vector<TensorView> feed_views, fetch_views;
    for (const auto& [name, tensor] : feeds) feed_views.push_back(tensor.view());
    for (const TensorSpec& spec : program_->fetch_specs()) {
      fetched.emplace_back(spec.dtype, spec.shape);
      fetch_views.push_back(fetched.back().view());
    }
    Bindings bindings;
    bindings.arena = arena_.data();
    bindings.feeds = feed_views;
    bindings.fetches = fetch_views;
    bindings.rng = {&stream, 1};
    bindings.step = {&step, 1};
    RIVULET_RETURN_IF_ERROR(instance_->Run(bindings));
    return fetched;
  }

 private:
  CompiledGraph() = default;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Instance> instance_;
  AlignedBuffer arena_;
};

// One run of a graph without variables.
inline StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const Feeds& feeds, std::vector<std::string> fetches,
                                              const StreamKey& stream = {}, uint64_t step = 0) {
  RIVULET_ASSIGN_OR_RETURN(auto compiled, CompiledGraph::Compile(graph, feeds, std::move(fetches)));
  return compiled.Run(feeds, stream, step);
}

// All outputs of one op. Its inputs are fed, save for those whose positions stand in `constants`: Const nodes, which a
// shape function can read. Kernels are named and watched by RunOp of tests/engine/kernels/run_op.h.
inline StatusOr<std::vector<Tensor>> EvaluateOp(const std::string& op, const std::vector<Tensor>& inputs,
                                                AttrMap attrs = {}, const std::vector<size_t>& constants = {}) {
  Graph graph;
  const Scope scope(graph);
  std::vector<Output> edges;
  Feeds feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (std::find(constants.begin(), constants.end(), i) != constants.end()) {
      edges.push_back(scope.Const(inputs[i]));
      continue;
    }
    edges.push_back(scope.Placeholder(fmt::format("x{}", i), inputs[i].dtype(), inputs[i].shape()));
    feeds.emplace_back(edges.back().name(), inputs[i]);
  }
  Node* const node = scope.AddNode(op, edges, std::move(attrs));
  RIVULET_RETURN_IF_ERROR(scope.status());
  std::vector<std::string> fetches;
  for (int port = 0; port < static_cast<int>(node->outputs().size()); ++port)
    fetches.push_back(node->output(port).name());
  return RunGraph(graph, feeds, fetches);
}

}  // namespace rivulet::testing
