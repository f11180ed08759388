// The importer's node builder: a scope whose ops take every type, and compositions shared by several families of ONNX
// operators. Errors are kept, as in Scope: after the first one every call returns an empty Output; queries about an
// empty Output answer "unknown".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/graph/op.h"
#include "engine/graph/scope.h"

namespace rivulet::onnx {

// Queries that also accept an empty Output.
DType TypeOf(Output x);  // kInvalid
const Shape& ShapeOf(Output x);
// Returns the size of an axis; kUnknownDim if it or the rank is unknown.
int64_t DimOf(Output x, int axis);

class Builder {
 public:
  explicit Builder(Scope scope) : scope_(std::move(scope)) {}
  const Scope& scope() const { return scope_; }
  const Status& status() const { return scope_.status(); }
  void Fail(Status status) const { scope_.Fail(std::move(status)); }

  // Returns true if the engine has this op.
  static bool Has(std::string_view op) { return OpRegistry::Global().Find(op) != nullptr; }
  // Adds `op`. If it does not support the inputs' type, they are cast to the next wider supported type, and the outputs
  // back. The casts are int8, int16, uint8, uint16 and bool to int32 or int64, uint32 and uint64 to int64, float16 and
  // bfloat16 to float32, int32 to int64.
  std::vector<Output> All(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}) const;
  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}) const;

  Output Const(Tensor value) const { return scope_.Const(std::move(value)); }
  Output Ints(const std::vector<int64_t>& values) const;  // an int64 vector
  Output Int(int64_t value) const;                        // an int64 scalar
  Output Int32(int64_t value) const;                      // an int32 scalar, as ops require for axes
  Output Int32s(const std::vector<int64_t>& values) const;
  Output Scalar(DType dtype, double value) const;  // of any type with values
  Output ScalarLike(Output x, double value) const { return Scalar(TypeOf(x), value); }
  // Returns a tensor of x's type filled with `value`; `dims` is an int64 vector.
  Output Filled(DType dtype, Output dims, double value) const;

  Output Cast(Output x, DType to) const;
  Output Add(Output a, Output b) const { return Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) const { return Op("Sub", {a, b}); }
  Output Mul(Output a, Output b) const { return Op("Mul", {a, b}); }
  Output Div(Output a, Output b) const;  // of floating or integer tensors; integers are rounded towards zero
  Output Neg(Output a) const { return Op("Neg", {a}); }
  Output Exp(Output a) const { return Op("Exp", {a}); }
  Output Log(Output a) const { return Op("Log", {a}); }
  Output Sqrt(Output a) const { return Op("Sqrt", {a}); }
  Output Square(Output a) const { return Op("Square", {a}); }
  Output Maximum(Output a, Output b) const { return Op("Maximum", {a, b}); }
  Output Minimum(Output a, Output b) const { return Op("Minimum", {a, b}); }
  Output Plus(Output a, double value) const { return Add(a, ScalarLike(a, value)); }
  Output Times(Output a, double value) const { return Mul(a, ScalarLike(a, value)); }
  Output Power(Output a, double exponent) const { return Op("Pow", {a, ScalarLike(a, exponent)}); }
  Output Select(Output condition, Output then, Output otherwise) const;
  Output Less(Output a, Output b) const { return Op("Less", {a, b}); }
  Output Equal(Output a, Output b) const { return Op("Equal", {a, b}); }

  Output Reshape(Output x, const std::vector<int64_t>& dims) const;  // one may be -1
  Output Shaped(Output x, const std::vector<Output>& dims) const;    // dims are int64 scalars
  Output ReshapeLike(Output x, Output like) const;
  Output Transpose(Output x, const std::vector<int64_t>& perm) const;
  // Slices only axis `axis`: elements begin, begin + stride, … before end; negative positions count from the end.
  Output Slice(Output x, int axis, int64_t begin, int64_t end, int64_t stride = 1) const;
  // Slices an axis from `begin` to its end (or backwards with a negative stride).
  Output From(Output x, int axis, int64_t begin, int64_t stride = 1) const;
  // Selects one element of an axis and removes the axis.
  Output At(Output x, int axis, int64_t index) const;
  Output Reverse(Output x, int axis) const { return From(x, axis, -1, -1); }
  Output Concat(const std::vector<Output>& parts, int axis) const;
  Output Stack(const std::vector<Output>& parts, int axis) const;
  Output ExpandDims(Output x, int axis) const;
  Output Squeeze(Output x, int axis) const;
  Output BroadcastTo(Output x, Output dims) const;
  // Pads with `value`; amounts before and after are per axis and not negative.
  Output Pad(Output x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, double value = 0) const;
  Output Pad(Output x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, Output value) const;
  Output Reduce(std::string_view op, Output x, const std::vector<int64_t>& axes, bool keep_dims) const;
  // Returns the matrix product over the last two axes; the others are broadcast.
  Output MatMul(Output a, Output b, bool transpose_a = false, bool transpose_b = false) const;

  // Returns the size of an axis as an int64 scalar; a constant if it is known.
  Output Dim(Output x, int axis) const;
  // Returns the whole shape as an int64 vector, likewise.
  Output Dims(Output x) const;
  // Returns int64 values 0, 1, … along `axis` of a tensor of rank `rank` that has size 1 elsewhere.
  Output Iota(int64_t size, int rank, int axis) const;
  // The same with the size of axis `of` of x, which may be unknown.
  Output Positions(Output x, int of, int rank, int axis) const;
  // Returns int64 scalars as a vector; a constant if all of them are constants.
  Output Vector(const std::vector<Output>& scalars) const;

  // Move `axis` of x to the end, and back.
  Output ToLast(Output x, int axis) const;
  Output FromLast(Output x, int axis) const;

 private:
  Scope scope_;
};

}  // namespace rivulet::onnx
