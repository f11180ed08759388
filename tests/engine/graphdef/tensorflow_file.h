// Files written by TensorFlow for tests (tests/engine/graphdef/tensorflow has the scripts): NAME.pb is a graph, and
// NAME.values.pb has TensorFlow's results for it, each as a Const node.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "engine/base/check.h"
#include "engine/graphdef/graph_def.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {

inline std::string ReadTensorFlowFile(const std::string& name) {
  std::string bytes = ContentOf(fmt::format("{}/tensorflow/{}", RIVULET_GRAPH_TEST_FOLDER, name));
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

inline Graph ReadTensorFlowGraph(const std::string& name) {
  StatusOr<Graph> graph = ParseGraph(ReadTensorFlowFile(name));
  EXPECT_OK(graph) << name;
  return *std::move(graph);
}

// Returns the value with that name in `values`.
inline const Tensor& ConstantNamed(const Graph& values, const std::string& name) {
  const Node* node = values.Find(name);
  RIVULET_CHECK(node != nullptr, "{}", name);
  return node->attr<Tensor>("value");
}

}  // namespace rivulet::testing
