// Random numbers, all from Philox4x32-10. The stateful ops draw from the stream of the run (the client's and the
// round's), at the step and the op's position in the program; the Stateless ones from the seed that they are given.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status RandomShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status StatelessShape(InferenceContext& c) {
  const Shape& seed = c.input(1);
  if (!Shape::Compatible(seed, Shape({2})))
    return InvalidArgument("the seed must be two integers, not of shape {}", seed.ToString());
  return RandomShape(c);
}

Status UniformIntShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1, 2}));
  return RandomShape(c);
}

Status StatelessUniformIntShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2, 3}));
  return StatelessShape(c);
}

Status MultinomialShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape logits, c.WithRank(0, 2));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  RIVULET_ASSIGN_OR_RETURN(const auto samples, KnownInteger(c, 1));
  if (samples && *samples < 0) return InvalidArgument("num_samples is {}, below 0", *samples);
  if (logits.dim(1) == 0) return InvalidArgument("logits of {} have no classes", logits.ToString());
  c.set_output(0, Shape({logits.dim(0), samples ? *samples : kUnknownDim}));
  return absl::OkStatus();
}

Status StatelessMultinomialShape(InferenceContext& c) {
  if (!Shape::Compatible(c.input(2), Shape({2})))
    return InvalidArgument("the seed must be two integers, not of shape {}", c.input(2).ToString());
  return MultinomialShape(c);
}

#define RIVULET_RANDOM_OP(name)  \
  RIVULET_OP(name)               \
      .Input("shape: T")         \
      .Output("output: dtype")   \
      .Attr("seed: int = 0")     \
      .Attr("seed2: int = 0")    \
      .Attr("dtype: floattype")  \
      .Attr("T: {int32, int64}") \
      .Stateful()                \
      .Shape(RandomShape)        \
      .Gradient(NoGradient)

#define RIVULET_STATELESS_RANDOM_OP(name)       \
  RIVULET_OP(name)                              \
      .Input("shape: T")                        \
      .Input("seed: Tseed")                     \
      .Output("output: dtype")                  \
      .Attr("dtype: floattype = DT_FLOAT")      \
      .Attr("T: {int32, int64} = DT_INT32")     \
      .Attr("Tseed: {int32, int64} = DT_INT64") \
      .Shape(StatelessShape)                    \
      .Gradient(NoGradient)

RIVULET_RANDOM_OP("RandomUniform")
    .Doc(
        "Uniform in [0, 1). The run's stream decides what is drawn; seed and seed2 are kept for TensorFlow's readers.");
RIVULET_RANDOM_OP("RandomStandardNormal")
    .Doc("Normal with mean 0 and deviation 1. The run's stream decides what is drawn.");
RIVULET_RANDOM_OP("TruncatedNormal")
    .Doc("Normal with mean 0 and deviation 1, drawn again while beyond 2 deviations. The run's stream decides.");
RIVULET_STATELESS_RANDOM_OP("StatelessRandomUniform").Doc("Uniform in [0, 1); a pure function of shape and seed.");
RIVULET_STATELESS_RANDOM_OP("StatelessRandomNormal")
    .Doc("Normal with mean 0 and deviation 1; a pure function of shape and seed.");
RIVULET_STATELESS_RANDOM_OP("StatelessTruncatedNormal")
    .Doc(
        "Normal with mean 0 and deviation 1, drawn again while beyond 2 deviations; a pure function of shape and "
        "seed.");

RIVULET_OP("RandomUniformInt")
    .Input("shape: T")
    .Input("minval: Tout")
    .Input("maxval: Tout")
    .Output("output: Tout")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("Tout: {int32, int64}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(UniformIntShape)
    .NotDifferentiable("its output is an integer")
    .Doc("Uniform integers in [minval, maxval). The run's stream decides what is drawn.");

RIVULET_OP("StatelessRandomUniformInt")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Input("minval: dtype")
    .Input("maxval: dtype")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64}")
    .Attr("T: {int32, int64} = DT_INT32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(StatelessUniformIntShape)
    .NotDifferentiable("its output is an integer")
    .Doc("Uniform integers in [minval, maxval); a pure function of shape, seed and range.");

RIVULET_OP("Multinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Output("output: output_dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: floattype")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Stateful()
    .Shape(MultinomialShape)
    .NotDifferentiable("its output is a class")
    .Doc(
        "num_samples classes for each row of logits, drawn with the probabilities softmax(logits). num_samples must be "
        "known when a program is compiled; the run's stream decides what is drawn.");

RIVULET_OP("StatelessMultinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Input("seed: Tseed")
    .Output("output: output_dtype")
    .Attr("T: floattype")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Shape(StatelessMultinomialShape)
    .NotDifferentiable("its output is a class")
    .Doc("num_samples classes for each row of logits, drawn with the probabilities softmax(logits), by a seed.");

RIVULET_OP("RandomShuffle")
    .Input("value: T")
    .Output("output: T")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Stateful()
    .Shape(SameAsInput(0))
    .NotDifferentiable("TensorFlow defines none")
    .Doc("value with its slices along the first axis in random order. The run's stream decides the order.");

}  // namespace
}  // namespace rivulet
