// Compiles a graph for given feeds and runs it, for tests that want values rather than programs.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/compile.h"
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

}  // namespace rivulet::testing
