// Helpers shared by shape functions of several families. Every function returns INVALID_ARGUMENT with the operands and
// the conflicting dimension; the graph adds the node's name and source line. Sizes are checked for overflow here,
// because a graph may come from outside.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "engine/graph/op.h"

// All element types that a tensor can hold, for ops that only move elements; strings are moved as numbers.
#define RIVULET_ANY_TYPE \
  "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, string}"

namespace rivulet {

// Output 0 has the shape of input `input`.
ShapeFn SameAsInput(int input);
// Every output is a scalar.
Status ScalarShape(InferenceContext& c);
// Output 0 has the shape of inputs 0 and 1 after NumPy broadcasting.
Status BroadcastShape(InferenceContext& c);
// All inputs and output 0 have one shape.
Status AllSameShape(InferenceContext& c);
// Fails if one of `inputs` is known not to be a scalar.
Status CheckScalars(const InferenceContext& c, std::initializer_list<int> inputs);
// For ops without outputs, or with outputs whose shape needs no inference.
Status NoOutputs(InferenceContext& c);

// Returns the integers (int32 or int64) of input `i`, a scalar or vector, if its value is known now.
StatusOr<std::optional<std::vector<int64_t>>> KnownIntegers(const InferenceContext& c, int i);
// Returns the single integer of input `i`, likewise.
StatusOr<std::optional<int64_t>> KnownInteger(const InferenceContext& c, int i);
// Returns the shape described by input `i`, a vector of sizes, as far as its values, or only its length, are known now.
// `allow_minus_one`: a size of -1 means unknown; otherwise it is an error.
StatusOr<Shape> ShapeFromInput(const InferenceContext& c, int i, bool allow_minus_one = false);

// Returns true for an omitted optional operand, which is represented by an empty vector.
bool IsLeftOut(const Shape& shape);

// Returns `axis`, in [-rank, rank), as an index in [0, rank). Errors call the axis `what`.
StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what = "axis");

// Adds or multiplies sizes. Fails beyond 2^40; the result is unknown if an operand is.
StatusOr<int64_t> AddDims(int64_t a, int64_t b);
StatusOr<int64_t> MultiplyDims(int64_t a, int64_t b);

}  // namespace rivulet
