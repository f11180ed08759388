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

}  // namespace
}  // namespace rivulet
