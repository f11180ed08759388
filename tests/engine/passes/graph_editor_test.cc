// The order in which an editor returns a graph's nodes, compared with its definition.
#include "engine/passes/graph_editor.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/engine/passes/optimized.h"

namespace rivulet::testing {
namespace {

// Of all orders that the edges of `nodes` allow, the least by position and index: at each step the least of all that
// wait for nothing.
std::vector<EditNode*> LeastOrder(const std::vector<EditNode*>& nodes) {
  std::vector<EditNode*> order;
  std::set<const EditNode*> done;
  while (order.size() < nodes.size()) {
    EditNode* least = nullptr;
    for (EditNode* node : nodes) {
      if (done.contains(node)) continue;
      const bool ready =
          std::ranges::all_of(node->inputs, [&](const Edge& edge) { return done.contains(edge.node); }) &&
          std::ranges::all_of(node->control_inputs, [&](EditNode* at) { return done.contains(at); });
      if (ready &&
          (least == nullptr || std::pair(node->position, node->index) < std::pair(least->position, least->index)))
        least = node;
    }
    EXPECT_NE(least, nullptr) << "a cycle";
    if (least == nullptr) break;
    order.push_back(least);
    done.insert(least);
  }
  return order;
}

// Chains of functions that read each other at random, and edits as passes make them: nodes that stand beside the one
// that they make an input of and so come after it by position and index, waits for nodes far on, nodes that go.
TEST(GraphEditorTest, AfterRandomEdits_NodesAreInTheLeastOrderThatEdgesAllow) {
  size_t moved = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t count) { return static_cast<size_t>(random()) % count; };
    Build build;
    std::vector<Output> values = {build.Feed("x", Shape{2})};
    for (int i = 0; i < 60; ++i)
      values.push_back(build.scope.Op("AddV2", {values[below(values.size())], values[below(values.size())]}));
    for (size_t i = 1; i <= 4; ++i) build.Fetch(values[values.size() - i]);
    ASSERT_OK(build.scope.status());
    const CompileOptions options;
    ASSERT_OK_AND_ASSIGN(const ConcreteGraph concrete, ConcreteGraph::Build(build.graph, build.signature, options));
    ASSERT_OK_AND_ASSIGN(GraphEditor editor, GraphEditor::Create(concrete, build.signature));
    for (int edit = 0; edit < 40; ++edit) {
      const std::vector<EditNode*> nodes = editor.Nodes();
      EditNode& node = *nodes[below(nodes.size())];
      if (node.inputs.empty()) continue;
      const size_t input = below(node.inputs.size());
      switch (below(3)) {
        case 0: {
          EditNode* const before = editor.Add(node.name + "/before", "Neg", {node.inputs[input]},
                                              {{"T", DType::kFloat32}}, {node.inputs[input].spec()}, node);
          editor.SetInput(node, input, before->output());
          break;
        }
        case 1:  // of an earlier one, so that no cycle is closed
          editor.AddControlInput(
              node, *nodes[below(static_cast<size_t>(std::ranges::find(nodes, &node) - nodes.begin() + 1))]);
          break;
        case 2:
          if (!node.pinned) editor.Replace(node, node.inputs[input]);
          editor.Prune();
          break;
      }
      const std::vector<EditNode*> order = editor.Nodes();
      EXPECT_EQ(order.size(), editor.size());
      ASSERT_EQ(order, LeastOrder(order));
      moved += static_cast<size_t>(
          !std::ranges::is_sorted(order, {}, [](const EditNode* at) { return std::pair(at->position, at->index); }));
    }
  }
  EXPECT_GT(moved, 100u) << "nothing ever waited for what comes later";
}

}  // namespace
}  // namespace rivulet::testing
