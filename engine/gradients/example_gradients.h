// Gradients clipped by example, without the gradient of each example: for differential privacy of examples (Abadi et
// al. 2016, arXiv:1607.00133, algorithm 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// A copy of `graph` in which placeholders with an open first axis have `examples` there. Errors as ImportInto.
StatusOr<Graph> WithBatchOf(const Graph& graph, int64_t examples);

// The losses of single examples. `loss` is a scalar over a batch of `examples`, at least 2, which all placeholders with
// a first axis of that size have first. Returns [examples]: element i is the loss of a batch of example i alone. Means
// and sums over the batch become those of each example, so a mean over counted positions divides by the example's own
// count. Every shape between the placeholders and the loss must be known. UNIMPLEMENTED: a node on the way depends on
// several examples, such as a batch normalisation, or its op has no rule; named.
StatusOr<Output> ExampleLosses(Graph& graph, Output loss, int64_t examples);

struct ExampleClipping {
  int64_t examples = 0;
  float norm = 1;  // the largest norm of one example's gradient, over all xs together
  Output present;  // [examples] float32: a factor for each, 0 of a row that is padding; empty: 1
};

struct ClippedGradients {
  // For each x: Σ_i present_i · min(1, norm / norm_i) · ∂loss_i/∂x, in the shape of x.
  std::vector<Output> sums;
  Output norms;  // [examples] float32: norm_i, before clipping
};

// Adds the nodes that compute these to `graph`. `loss` and its batch are as ExampleLosses says, xs as in
// ComputeGradients. A gradient is computed backwards once; products for weights run once, with the factors in them.
// Errors as ComputeGradients and ExampleLosses; UNIMPLEMENTED also where a weight's gradient is no sum that a rule
// (example_sums.h) takes apart, and for other types than float32.
StatusOr<ClippedGradients> ComputeClippedGradients(Graph& graph, Output loss, std::span<const Output> xs,
                                                   const ExampleClipping& clipping);

}  // namespace rivulet
