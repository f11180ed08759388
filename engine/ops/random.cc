// Random numbers from Philox4x32-10, drawn from the stream of the run (the client's and the round's), at the step and
// the op's position in the program. stateless_random.cc has those that are functions of a seed.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/random_shapes.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status UniformIntShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1, 2}));
  return RandomShape(c);
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

RIVULET_RANDOM_OP("RandomUniform")
    .Doc(
        "Uniform in [0, 1). The run's stream decides the draws. The attributes seed and seed2 are kept for readers of "
        "TensorFlow graphs.");
RIVULET_RANDOM_OP("RandomStandardNormal")
    .Doc("Normal with mean 0 and deviation 1. The run's stream decides the draws.");
RIVULET_RANDOM_OP("TruncatedNormal")
    .Doc(
        "Normal with mean 0 and deviation 1, drawn again while beyond 2 deviations. The run's stream decides the "
        "draws.");
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
    .Doc("Uniform integers in [minval, maxval). The run's stream decides the draws.");

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
        "Draws num_samples classes for each row of logits with the probabilities softmax(logits). The input "
        "num_samples must be known when a program is compiled. The run's stream decides the draws.");

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
