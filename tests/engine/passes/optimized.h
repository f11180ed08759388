// Results of passes on a graph, for tests that inspect them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/optimize.h"
#include "engine/graph/scope.h"
#include "engine/passes/pass.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {

// Options that disable all optional passes except `name`.
inline CompileOptions Only(std::string_view name) {
  CompileOptions options;
  for (const Pass& pass : Passes())
    if (pass.optional && pass.name != name) options.passes.without.emplace_back(pass.name);
  return options;
}
inline CompileOptions NoPasses() { return Only(""); }

inline int Count(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) { return node->type() == op; }));
}

// A graph under construction, with its feeds and fetches.
struct Build {
  Graph graph;
  Scope scope{graph};
  Signature signature;

  Output Feed(const std::string& name, Shape shape) {
    signature.feeds.push_back({name, F32(shape)});
    return scope.Placeholder(name, DType::kFloat32, std::move(shape));
  }
  void Fetch(Output output) { signature.fetches.push_back(output.name()); }
  Graph Optimized(const CompileOptions& options = {}) {
    EXPECT_OK(scope.status());
    StatusOr<OptimizedGraph> optimized = OptimizeGraph(graph, signature, options);
    EXPECT_OK(optimized);
    return optimized.ok() ? std::move(optimized->graph) : Graph();
  }
};

}  // namespace rivulet::testing
