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
  std::vector<std::string> shapes;  // one per input: "64x784", "scalar", or "=1,0" for a constant list of numbers
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
// Makes the graph. Usage errors: an unknown op (names the nearest), an unknown attribute, a number of shapes that
// differs from that of the inputs, or shapes that the op's shape function refuses.
StatusOr<OpBenchGraph> MakeOpBenchGraph(const OpBenchOptions& options);

struct OpTiming {
  std::string algorithm, implementation, kernel;
  std::string skipped;  // why there is no measurement; "" if there is one
  int64_t runs = 0;
  double seconds = 0;  // median time of one run
  double flops = 0, bytes = 0;
  std::vector<float> outputs;  // all outputs, concatenated, as float32
};

// Returns the algorithms for this op: "native" and "portable"; "avx512", "avx2", "sse4" and "none", which are native
// with at most this instruction set; and those of KernelAlternatives for the op.
std::vector<std::string> AlgorithmsFor(const OpBenchGraph& bench);
bool IsInstructionSet(const std::string& algorithm);

// Runs one algorithm in a separate process, because a process chooses instruction sets only once. The calling process
// must have no other threads and must not have prepared kernels. INTERNAL: the separate process died.
StatusOr<OpTiming> TimeAlgorithm(const OpBenchGraph& bench, const std::string& algorithm);

}  // namespace rivulet
