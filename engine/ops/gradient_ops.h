// Building blocks of gradient functions. Errors are kept, as in Scope: after the first one every call returns an empty
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
// BroadcastGradientArgs. A compiled program knows all shapes, so there these nodes become constants.
#pragma once

#include <optional>
#include <vector>

#include "engine/gradients/gradients.h"

namespace rivulet {

class GradientOps {
 public:
  explicit GradientOps(GradientContext& context) : scope_(context.scope()) {}
  const Status& status() const { return scope_.status(); }

  // Adds `op` and returns its first output; empty if an input is empty.
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
  Output AsInt32(Output integers);           // an int32 tensor from any integer tensor

  // Returns the shape of `x` as an int32 vector; a constant if it is known.
  Output ShapeOf(Output x);
  // Returns `value` reshaped to the shape of `x`, which must have as many elements.
  Output ReshapeLike(Output value, Output x);
  // Sums `gradient` over the axes along which `x` was broadcast to gradient's shape; the result has x's shape.
  Output SumTo(Output gradient, Output x);
  // Reshapes `value`, which is `x` reduced over `axes` without keep_dims, so that each reduced axis has size 1.
  Output KeepDims(Output value, Output x, Output axes);
  Output Sum(Output x, Output axes, bool keep_dims);
  Output BroadcastLike(Output value, Output x);

 private:
  Scope scope_;
};

// Returns the value of an integer Const node as int64s; nullopt for other nodes and types.
std::optional<std::vector<int64_t>> ConstantIntegers(Output output);

// Sets no gradient. For ops that are constant almost everywhere, and for ops that stop the gradient.
Status NoGradient(GradientContext& g);
// Passes the gradient of output 0 to input 0.
Status PassGradient(GradientContext& g);

}  // namespace rivulet
