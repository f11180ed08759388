// Mixed precision: the products of a model in a 16-bit type, its variables, sums and losses in float32.
//
// There are three kinds of ops. Products (MatMul, Conv2D, …) compute in the 16-bit type. Each of their float32 inputs,
// variables included, is rounded once. Convolutions of images with up to 4 channels are excepted, because they gain
// nothing. Ops that only pass on a product's result (BiasAdd, Relu, pooling, …) stay in the 16-bit type, provided that
// at most variables and constants must be rounded for this. Everything else (softmax, losses, norms, means, …) computes
// in float32. Variables keep float32 values (master weights). Gradients pass through the roundings backwards as
// conversions, so ComputeGradients on the result gives float32 gradients.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/dtype.h"

namespace rivulet {

// Returns `graph` with its products in `compute`, kBFloat16 or kFloat16. Every tensor of the old graph keeps its name
// and type; added nodes are named after it ("dense/MatMul/bfloat16"). Random ops keep their order.
StatusOr<Graph> ToMixedPrecision(const Graph& graph, DType compute);

// Widens gradients from ComputeGradients in such a graph. A 16-bit MatMul that is converted to float32 becomes a
// float32 MatMul of the same rounded factors. Their products are then exact, there is no second rounding, and plain SGD
// can still be fused with it.
Status WidenWeightGradients(Graph& graph, std::span<Output> gradients);

}  // namespace rivulet
