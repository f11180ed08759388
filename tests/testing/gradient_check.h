// Gradients against finite differences, in float64.
//
//   EXPECT_EQ(CheckGradients({Random({2, 3}), Random({3})},
//                            [](const Scope& s, std::vector<Output> x) { return std::vector{s.Op("Mul", {x[0], x[1]})};
//                            }),
//             absl::OkStatus());
#pragma once

#include <functional>
#include <vector>

#include "engine/graph/scope.h"

namespace rivulet::testing {

// Builds a function of float64 inputs; any number of floating outputs, of any shape.
using BuildFn = std::function<std::vector<Output>(const Scope& scope, const std::vector<Output>& inputs)>;

// How much of the inputs' shapes the graph knows when gradients are built; the program always knows all.
enum class KnownShapes {
  kAll,
  kAllButBatch,  // the first dimension is unknown
  kRanks,        // all dimensions are unknown
};

struct GradientCheckOptions {
  double delta = 1e-5;        // of the finite difference
  double tolerance = 1e-6;    // relative to the larger of 1 and the derivative
  bool second_order = false;  // also the gradient of the gradient
  std::vector<KnownShapes> known_shapes = {KnownShapes::kAll, KnownShapes::kAllButBatch, KnownShapes::kRanks};
};

// The loss is the sum of all outputs' elements, each weighted by a fixed number; its gradient by each element of each
// input is compared with a central difference. The error names the input, the element and both values.
Status CheckGradients(const std::vector<Tensor>& inputs, const BuildFn& build,
                      const GradientCheckOptions& options = {});

// Float64 tensors of values in [low, high), from a small generator that is the same everywhere.
Tensor RandomTensor(Shape shape, uint64_t seed, double low = -1, double high = 1);
// The same with values at least `gap` apart from each other and from 0, in random order: off the kinks of Abs, Relu,
// Max.
Tensor DistinctTensor(Shape shape, uint64_t seed, double gap = 0.05);

}  // namespace rivulet::testing
