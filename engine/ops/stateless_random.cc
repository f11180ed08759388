// Random numbers that are functions of a seed, or of a key and a counter: TensorFlow's own, number for number.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/random_shapes.h"

namespace rivulet {
namespace {

Status CheckVector(const InferenceContext& c, int i, int64_t elements, std::string_view what) {
  if (Shape::Compatible(c.input(i), Shape({elements}))) return absl::OkStatus();
  return InvalidArgument("the {} must be {} integers, not of shape {}", what, elements, c.input(i).ToString());
}

Status StatelessShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 1, 2, "seed"));
  return RandomShape(c);
}

Status StatelessUniformIntShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2, 3}));
  return StatelessShape(c);
}

Status StatelessMultinomialShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 2, 2, "seed"));
  return MultinomialShape(c);
}

Status KeyCounterShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 0, 2, "seed"));
  c.set_output(0, Shape({1}));
  c.set_output(1, Shape({2}));
  return absl::OkStatus();
}

Status KeyedShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 1, 1, "key"));
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 2, 2, "counter"));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {3}));
  return RandomShape(c);
}

Status KeyedUniformIntShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {4, 5}));
  return KeyedShape(c);
}

#define RIVULET_STATELESS_RANDOM_OP(name)        \
  RIVULET_OP(name)                               \
      .Input("shape: T")                         \
      .Input("seed: Tseed")                      \
      .Output("output: dtype")                   \
      .Attr("dtype: {float, double} = DT_FLOAT") \
      .Attr("T: {int32, int64} = DT_INT32")      \
      .Attr("Tseed: {int32, int64} = DT_INT64")  \
      .Shape(StatelessShape)                     \
      .Gradient(NoGradient)

#define RIVULET_KEYED_RANDOM_OP(name)            \
  RIVULET_OP(name)                               \
      .Input("shape: Tshape")                    \
      .Input("key: uint64")                      \
      .Input("counter: uint64")                  \
      .Input("alg: int32")                       \
      .Output("output: dtype")                   \
      .Attr("dtype: {float, double} = DT_FLOAT") \
      .Attr("Tshape: {int32, int64} = DT_INT32") \
      .Shape(KeyedShape)                         \
      .Gradient(NoGradient)

RIVULET_STATELESS_RANDOM_OP("StatelessRandomUniform").Doc("Uniform in [0, 1); a pure function of shape and seed.");
RIVULET_STATELESS_RANDOM_OP("StatelessRandomNormal")
    .Doc("Normal with mean 0 and deviation 1; a pure function of shape and seed.");
RIVULET_STATELESS_RANDOM_OP("StatelessTruncatedNormal")
    .Doc(
        "Normal with mean 0 and deviation 1, drawn again while beyond 2 deviations; a pure function of shape and "
        "seed.");
RIVULET_KEYED_RANDOM_OP("StatelessRandomUniformV2")
    .Doc("Uniform in [0, 1); a pure function of shape, key and counter. alg is 1 (Philox) or 3 (any).");
RIVULET_KEYED_RANDOM_OP("StatelessRandomNormalV2")
    .Doc("Normal with mean 0 and deviation 1; a pure function of shape, key and counter.");
RIVULET_KEYED_RANDOM_OP("StatelessTruncatedNormalV2")
    .Doc("Normal with mean 0 and deviation 1, drawn again while beyond 2 deviations; by key and counter.");

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

RIVULET_OP("StatelessRandomUniformIntV2")
    .Input("shape: Tshape")
    .Input("key: uint64")
    .Input("counter: uint64")
    .Input("alg: int32")
    .Input("minval: dtype")
    .Input("maxval: dtype")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64}")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(KeyedUniformIntShape)
    .NotDifferentiable("its output is an integer")
    .Doc("Uniform integers in [minval, maxval); a pure function of shape, key, counter and range.");

RIVULET_OP("StatelessRandomUniformFullInt")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64, uint32, uint64} = DT_UINT64")
    .Attr("T: {int32, int64} = DT_INT32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(StatelessShape)
    .NotDifferentiable("its output is an integer")
    .Doc("Uniform over all integers of the type; a pure function of shape and seed.");

RIVULET_OP("StatelessRandomUniformFullIntV2")
    .Input("shape: Tshape")
    .Input("key: uint64")
    .Input("counter: uint64")
    .Input("alg: int32")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64, uint32, uint64} = DT_UINT64")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(KeyedShape)
    .NotDifferentiable("its output is an integer")
    .Doc("Uniform over all integers of the type; a pure function of shape, key and counter.");

RIVULET_OP("StatelessRandomGetKeyCounter")
    .Input("seed: Tseed")
    .Output("key: uint64")
    .Output("counter: uint64")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(KeyCounterShape)
    .NotDifferentiable("its outputs are integers")
    .Doc("The key and the counter that a seed stands for.");

RIVULET_OP("StatelessRandomGetAlg")
    .Output("alg: int32")
    .Shape(ScalarShape)
    .NotDifferentiable("its output is an integer")
    .Doc("The algorithm of random numbers here: 1, Philox.");

RIVULET_OP("StatelessMultinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Input("seed: Tseed")
    .Output("output: output_dtype")
    .Attr("T: {float, double}")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Shape(StatelessMultinomialShape)
    .NotDifferentiable("its output is a class")
    .Doc(
        "num_samples classes for each row of logits, drawn with the probabilities softmax(logits), by a seed. The "
        "draws "
        "are TensorFlow's on one thread.");

}  // namespace
}  // namespace rivulet
