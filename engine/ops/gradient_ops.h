// Building blocks of gradient functions. Errors stick, as in Scope: after the first one every call returns an empty
// Output, and status() returns the error.
//
//   Status MulGradient(GradientContext& g) {
//     GradientOps ops(g);
//     g.set_input_grad(0, ops.SumTo(ops.Mul(g.grad(), g.input(1)), g.input(0)));
//     …
//     return ops.status();
//   }
//
// Shapes that are unknown when the gradient is built (the batch) are computed in the graph, with Shape and
// BroadcastGradientArgs. A compiled program knows all shapes, so these nodes become constants there.
#pragma once

#include <optional>
#include <vector>

#include "engine/gradients/gradients.h"

namespace rivulet {

class GradientOps {
 public:
  explicit GradientOps(GradientContext& context) : scope_(context.scope()) {}
  const Status& status() const { return scope_.status(); }

  // Adds `op` and returns its first output; empty when an input is.
  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {});
  Node* AddNode(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {});

  Output Add(Output a, Output b) { return Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) { return Op("Sub", {a, b}); }
  Output Mul(Output a, Output b) { return Op("Mul", {a, b}); }
  Output Div(Output a, Output b) { return Op("RealDiv", {a, b}); }
  Output Neg(Output a) { return Op("Neg", {a}); }
  Output Square(Output a) { return Op("Square", {a}); }
  Output ZerosLike(Output a) { return Op("ZerosLike", {a}); }

  Output Scalar(DType dtype, double value);  // of a floating or integer type
  Output Scale(Output a, double factor);     // a · factor
  Output Ints(std::vector<int64_t> values);  // an int32 vector
  Output Int(int64_t value);                 // an int32 scalar
  Output AsInt32(Output integers);           // an int32 tensor of any integer one

  // The shape of `x` as an int32 vector: a constant where it is known.
  Output ShapeOf(Output x);
  // `value` in the shape of `x`, which has as many elements.
  Output ReshapeLike(Output value, Output x);
  // Sums `gradient` over the axes along which `x` was broadcast to gradient's shape; the result has x's shape.
  Output SumTo(Output gradient, Output x);
  // `value`, which is `x` reduced over `axes` without keep_dims, with 1 in the place of each reduced axis.
  Output KeepDims(Output value, Output x, Output axes);
  Output Sum(Output x, Output axes, bool keep_dims);
  Output BroadcastLike(Output value, Output x);

 private:
  Scope scope_;
};

// The value of a Const node as int64s; nullopt for other nodes, and other types.
std::optional<std::vector<int64_t>> ConstantIntegers(Output output);

// For ops that are constant almost everywhere, and for those that hold the gradient back: no input gets a gradient.
Status NoGradient(GradientContext& g);
// The one output's gradient is the gradient of input 0.
Status PassGradient(GradientContext& g);

}  // namespace rivulet
