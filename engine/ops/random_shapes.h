// Shapes of random numbers.
#pragma once

#include "engine/ops/shape_functions.h"

namespace rivulet {

// Output 0 has the shape given by the values of input 0.
inline Status RandomShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// num_samples (input 1) classes are drawn for each row of logits (input 0).
inline Status MultinomialShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape logits, c.WithRank(0, 2));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  RIVULET_ASSIGN_OR_RETURN(const auto samples, KnownInteger(c, 1));
  if (samples && *samples < 0) return InvalidArgument("num_samples is {}, below 0", *samples);
  if (logits.dim(1) == 0) return InvalidArgument("logits of {} have no classes", logits.ToString());
  c.set_output(0, Shape({logits.dim(0), samples ? *samples : kUnknownDim}));
  return absl::OkStatus();
}

}  // namespace rivulet
