// Helpers shared by shape functions of several families. Every function returns INVALID_ARGUMENT with the operands and
// the conflicting dimension; the graph adds the node's name and source line. Sizes are checked for overflow here,
// because a graph may come from outside.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "engine/graph/op.h"

// The element types that ops which only move elements have: all that a tensor can hold, strings as their numbers.
#define RIVULET_ANY_TYPE \
  "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, string}"

namespace rivulet {

// Output 0 has the shape of input `input`.
ShapeFn SameAsInput(int input);
// Every output is a scalar.
Status ScalarShape(InferenceContext& c);
// Output 0 is inputs 0 and 1 broadcast together, as NumPy does.
Status BroadcastShape(InferenceContext& c);
// All inputs and output 0 have one shape.
Status AllSameShape(InferenceContext& c);
// Each of `inputs` is a scalar, as far as its shape is known.
Status CheckScalars(const InferenceContext& c, std::initializer_list<int> inputs);
// Ops without outputs, or whose outputs need no words.
Status NoOutputs(InferenceContext& c);

// The integers (int32 or int64) of input `i`, a scalar or vector, where its value is known now.
StatusOr<std::optional<std::vector<int64_t>>> KnownIntegers(const InferenceContext& c, int i);
// The one integer of input `i`, likewise.
StatusOr<std::optional<int64_t>> KnownInteger(const InferenceContext& c, int i);
// The shape that input `i`, a vector of sizes, describes: as far as its values, or only its length, are known now.
// `allow_minus_one`: a size of -1 stays unknown, and is an error otherwise.
StatusOr<Shape> ShapeFromInput(const InferenceContext& c, int i, bool allow_minus_one = false);

// An optional operand that is left out is an empty vector.
bool IsLeftOut(const Shape& shape);

// `axis` in [-rank, rank) as [0, rank). `what` names it in the error.
StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what = "axis");

// Sizes that stay within 2^40, unknown when one of them is.
StatusOr<int64_t> AddDims(int64_t a, int64_t b);
StatusOr<int64_t> MultiplyDims(int64_t a, int64_t b);

}  // namespace rivulet
