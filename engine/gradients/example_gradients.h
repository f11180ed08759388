// Gradients clipped per example, computed without materialising each example's gradient, for example-level differential
// privacy (Abadi et al. 2016, arXiv:1607.00133, algorithm 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

// Returns a copy of `graph`; placeholders with an unknown first axis get size `examples` there. Errors as ImportInto.
StatusOr<Graph> WithBatchOf(const Graph& graph, int64_t examples);

// Returns the losses of single examples, [examples]. Element i is the loss of a batch that consists of example i alone.
// `loss` is a scalar over a batch of `examples`, at least 2; this is the first axis of all placeholders that have that
// size. Means and sums over the batch become per-example ones, so a mean over counted positions divides by the
// example's count. All shapes between placeholders and loss must be known. UNIMPLEMENTED names a node that mixes
// examples, such as a batch normalisation, or whose op has no rule.
StatusOr<Output> ExampleLosses(Graph& graph, Output loss, int64_t examples);

struct ExampleClipping {
  int64_t examples = 0;
  float norm = 1;  // the largest norm of one example's gradient, over all xs together
  Output present;  // [examples] float32: a factor for each example, 0 for a padding row; if empty, all factors are 1
};

struct ClippedGradients {
  // For each x: Σ_i present_i · min(1, norm / norm_i) · ∂loss_i/∂x, in the shape of x.
  std::vector<Output> sums;
  Output norms;  // [examples] float32: norm_i, before clipping
};

// Adds nodes that compute the clipped gradients to `graph`. `loss` and its batch are as for ExampleLosses, `xs` as for
// ComputeGradients. There is one backward pass; products for weights run once, with the factors applied. Errors as
// ComputeGradients and ExampleLosses. UNIMPLEMENTED also if a weight's gradient is not a sum that a rule
// (example_sums.h) covers, and for types other than float32.
StatusOr<ClippedGradients> ComputeClippedGradients(Graph& graph, Output loss, std::span<const Output> xs,
                                                   const ExampleClipping& clipping);

}  // namespace rivulet
