// Benchmark of one op: a one-node graph, run by each available implementation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/kernel.h"

namespace rivulet {

struct OpBenchOptions {
  std::string op;
  std::vector<std::string> shapes;  // one per input: "64x784", "scalar", or "=1,0": a constant list of numbers
  std::string dtype = "float32";
  std::vector<std::string> attrs;  // "transpose_b=true"
};

// The graph of `options`: inputs "input_0", … and a node "op".
struct OpBenchGraph {
  Graph graph;
  Node* node = nullptr;
  std::vector<Output> fed;            // placeholders
  std::vector<TensorSpec> variables;  // of resource inputs, in order
  std::string title;                  // "MatMul float32[64,784] float32[784,128], transpose_b = true"
};
// Usage errors: an op that is not there (names the nearest), an attribute it has not, shapes that are not as many as
// its inputs, or that the op's own shape function refuses.
StatusOr<OpBenchGraph> MakeOpBenchGraph(const OpBenchOptions& options);

struct OpTiming {
  std::string algorithm, implementation, kernel;
  std::string skipped;  // why there is no measurement; "" when there is one
  int64_t runs = 0;
  double seconds = 0;  // median of one run
  double flops = 0, bytes = 0;
  std::vector<float> outputs;  // all outputs, one after the other, as float32
};

// Algorithms: "native" and "portable"; "avx512", "avx2", "sse4" and "none", which are native with no better
// instruction set; and what KernelAlternatives has for the op. Names that hold for this op.
std::vector<std::string> AlgorithmsFor(const OpBenchGraph& bench);
bool IsInstructionSet(const std::string& algorithm);

// Runs one algorithm in a process of its own, because instruction sets are chosen once in a process. The calling
// process has no other threads, and has prepared no kernel. INTERNAL: that process died.
StatusOr<OpTiming> TimeAlgorithm(const OpBenchGraph& bench, const std::string& algorithm);

}  // namespace rivulet
