// Mixed precision: the products of a model in a 16-bit type, its variables, sums and losses in float32.
//
// Three kinds of ops. Products (MatMul, Conv2D, …) compute in the 16-bit type: their float32 inputs, variables
// included, are rounded to it, once each; save for convolutions of images of up to 4 channels, which do not pay. What
// only passes a product's result on (BiasAdd, Relu, pooling, …) stays in the 16-bit type, where no input would have to
// be rounded for it but a variable or a constant. Everything else (softmax, losses, norms, means, …) sees float32.
// Variables keep float32 values (master weights): gradients pass through the roundings backwards as conversions, so
// ComputeGradients on the result gives float32 gradients.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/dtype.h"

namespace rivulet {

// `graph` with its products in `compute`, kBFloat16 or kFloat16. Every tensor of the old graph has the same name and
// type in the new one; what is added is named after it ("dense/MatMul/bfloat16"). Random ops keep their order.
StatusOr<Graph> ToMixedPrecision(const Graph& graph, DType compute);

// What ComputeGradients made of variables in such a graph. A gradient that is a MatMul in 16 bits, converted to
// float32, becomes a MatMul in float32 of the same rounded factors: their products are exact there, nothing is rounded
// a second time, and plain SGD can still be fused with it.
Status WidenWeightGradients(Graph& graph, std::span<Output> gradients);

}  // namespace rivulet
