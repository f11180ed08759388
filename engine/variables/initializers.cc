#include "engine/variables/initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/nearest.h"

namespace rivulet {
namespace {

// A standard normal truncated at two standard deviations has this standard deviation; Keras divides by it, so that the
// scaled initialisers below have the variance they promise (scipy.stats.truncnorm.std(a=-2, b=2)).
constexpr double kTruncatedStddev = 0.87962566103423978;

Output Scalar(const Scope& scope, DType dtype, double value, std::string_view name) {
  if (dtype == DType::kFloat64) return scope.Const(Tensor::Scalar(value), name);
  if (dtype == DType::kInt32) return scope.Const(Tensor::Scalar(static_cast<int32_t>(value)), name);
  if (dtype == DType::kInt64) return scope.Const(Tensor::Scalar(static_cast<int64_t>(value)), name);
  const Output scalar = scope.Const(static_cast<float>(value), name);
  return dtype == DType::kFloat32 ? scalar : scope.Op("Cast", {scalar}, {{"DstT", dtype}});
}

Output Dims(const Scope& scope, const Shape& shape) {
  Tensor dims(DType::kInt32, Shape{shape.rank()});
  for (int axis = 0; axis < shape.rank(); ++axis)
    dims.flat<int32_t>()[static_cast<size_t>(axis)] = static_cast<int32_t>(shape.dim(axis));
  return scope.Const(std::move(dims), "shape");
}

Output Filled(const Scope& scope, DType dtype, const Shape& shape, double value) {
  return scope.Op("Fill", {Dims(scope, shape), Scalar(scope, dtype, value, "value")});
}

// draw(op) · scale + offset
Output Drawn(const Scope& scope, std::string_view op, DType dtype, const Shape& shape, double scale, double offset) {
  if (!IsFloating(dtype)) {
    scope.Fail(InvalidArgument("a random first value must be floating, but is {}", Name(dtype)));
    return {};
  }
  Output value = scope.Op(op, {Dims(scope, shape)}, {{"dtype", dtype}});
  value = scope.Op("Mul", {value, Scalar(scope, dtype, scale, "scale")});
  return offset == 0 ? value : scope.Op("AddV2", {value, Scalar(scope, dtype, offset, "offset")});
}

Output Uniform(const Scope& scope, DType dtype, const Shape& shape, double low, double high) {
  return Drawn(scope, "RandomUniform", dtype, shape, high - low, low);
}

struct Fans {
  double in, out;
};

Fans FansOf(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {1, 1};
  if (rank == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  double receptive = 1;
  for (int axis = 0; axis < rank - 2; ++axis) receptive *= static_cast<double>(shape.dim(axis));
  return {receptive * static_cast<double>(shape.dim(rank - 2)), receptive * static_cast<double>(shape.dim(rank - 1))};
}

double FanIn(const Fans& fans) { return fans.in; }
double FanOut(const Fans& fans) { return fans.out; }
double FanAverage(const Fans& fans) { return (fans.in + fans.out) / 2; }

// Variance scale / fan, uniform or truncated normal.
Initializer Scaled(std::string name, double scale, double (*fan)(const Fans&), bool normal) {
  return Initializer(std::move(name), [=](const Scope& scope, DType dtype, const Shape& shape) {
    const double variance = scale / std::max(1.0, fan(FansOf(shape)));
    if (normal) return Drawn(scope, "TruncatedNormal", dtype, shape, std::sqrt(variance) / kTruncatedStddev, 0);
    const double limit = std::sqrt(3 * variance);
    return Uniform(scope, dtype, shape, -limit, limit);
  });
}

// Ones on the diagonal; no constant of this size in the graph.
Output Eye(const Scope& scope, DType dtype, int64_t rows, int64_t columns) {
  const auto integer = [&](int64_t value) { return scope.Const(Tensor::Scalar(static_cast<int32_t>(value))); };
  const Output range = scope.Op("Range", {integer(0), integer(rows), integer(1)});
  return scope.Op("OneHot", {range, integer(columns), Scalar(scope, dtype, 1, "on"), Scalar(scope, dtype, 0, "off")});
}

// A wide matrix is the transpose of a tall one, since a factor q has no more columns than rows.
Output EmitOrthogonal(const Scope& scope, DType dtype, const Shape& shape, double gain) {
  if (shape.rank() < 2) {
    scope.Fail(InvalidArgument("an orthogonal first value needs two axes or more, not {}", shape.ToString()));
    return {};
  }
  const int64_t columns = shape.dim(shape.rank() - 1);
  const int64_t rows = columns == 0 ? 0 : shape.elements() / columns;
  const bool wide = rows < columns;
  const Shape tall = wide ? Shape{columns, rows} : Shape{rows, columns};
  const Output drawn = Drawn(scope, "RandomStandardNormal", dtype, tall, 1, 0);
  Node* qr = scope.AddNode("Qr", {drawn});
  if (qr == nullptr) return {};
  // The factors are unique, and q evenly distributed, once r has a positive diagonal.
  const Output diagonal = scope.Op("Mul", {qr->output(1), Eye(scope, dtype, tall.dim(1), tall.dim(1))});
  const Output axis = scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}));
  Output q = scope.Op("Mul", {qr->output(0), scope.Op("Sign", {scope.Op("Sum", {diagonal, axis})})});
  if (wide) q = scope.Op("Transpose", {q, scope.Const(Tensor::Of<int32_t>(Shape{2}, {1, 0}))});
  if (gain != 1) q = scope.Op("Mul", {q, Scalar(scope, dtype, gain, "gain")});
  return shape.rank() == 2 ? q : scope.Op("Reshape", {q, Dims(scope, shape)});
}

}  // namespace

// First values are nodes, not tensors: a graph of a hundred million weights is a few kilobytes, and which values they
// draw is decided by the run's seed. The size is checked here, before any op is asked for a shape that has no number of
// elements.
Output Initializer::operator()(const Scope& scope, DType dtype, const Shape& shape) const {
  const Scope inner = scope.SubScope(name_);
  if (const StatusOr<int64_t> elements = shape.CheckedElements(); !elements.ok()) {
    inner.Fail(Annotate(elements.status(), fmt::format("the first value '{}'", name_)));
    return {};
  }
  return emit_(inner, dtype, shape);
}

Initializer Constant(double value) {
  return Initializer("constant", [value](const Scope& scope, DType dtype, const Shape& shape) {
    return Filled(scope, dtype, shape, value);
  });
}
Initializer Zeros() {
  return Initializer(
      "zeros", [](const Scope& scope, DType dtype, const Shape& shape) { return Filled(scope, dtype, shape, 0); });
}
Initializer Ones() {
  return Initializer(
      "ones", [](const Scope& scope, DType dtype, const Shape& shape) { return Filled(scope, dtype, shape, 1); });
}
Initializer RandomUniform(double low, double high) {
  return Initializer("random_uniform", [low, high](const Scope& scope, DType dtype, const Shape& shape) {
    return Uniform(scope, dtype, shape, low, high);
  });
}
Initializer RandomNormal(double mean, double stddev) {
  return Initializer("random_normal", [mean, stddev](const Scope& scope, DType dtype, const Shape& shape) {
    return Drawn(scope, "RandomStandardNormal", dtype, shape, stddev, mean);
  });
}
Initializer TruncatedNormal(double mean, double stddev) {
  return Initializer("truncated_normal", [mean, stddev](const Scope& scope, DType dtype, const Shape& shape) {
    return Drawn(scope, "TruncatedNormal", dtype, shape, stddev, mean);
  });
}
Initializer GlorotUniform() { return Scaled("glorot_uniform", 1, FanAverage, false); }
Initializer GlorotNormal() { return Scaled("glorot_normal", 1, FanAverage, true); }
Initializer HeUniform() { return Scaled("he_uniform", 2, FanIn, false); }
Initializer HeNormal() { return Scaled("he_normal", 2, FanIn, true); }
Initializer LecunUniform() { return Scaled("lecun_uniform", 1, FanIn, false); }
Initializer LecunNormal() { return Scaled("lecun_normal", 1, FanIn, true); }

Initializer VarianceScaling(double scale, std::string mode, std::string distribution) {
  return Initializer("variance_scaling", [=](const Scope& scope, DType dtype, const Shape& shape) -> Output {
    const Fans fans = FansOf(shape);
    const bool known = mode == "fan_in" || mode == "fan_out" || mode == "fan_avg";
    if (!known || !(scale > 0)) {
      scope.Fail(
          InvalidArgument("variance_scaling needs a positive scale and the mode fan_in, fan_out or fan_avg, not "
                          "{} and '{}'",
                          scale, mode));
      return {};
    }
    const double fan = mode == "fan_in" ? FanIn(fans) : mode == "fan_out" ? FanOut(fans) : FanAverage(fans);
    const double variance = scale / std::max(1.0, fan);
    if (distribution == "uniform")
      return Uniform(scope, dtype, shape, -std::sqrt(3 * variance), std::sqrt(3 * variance));
    if (distribution == "normal") return Drawn(scope, "RandomStandardNormal", dtype, shape, std::sqrt(variance), 0);
    if (distribution == "truncated_normal")
      return Drawn(scope, "TruncatedNormal", dtype, shape, std::sqrt(variance) / kTruncatedStddev, 0);
    scope.Fail(
        InvalidArgument("variance_scaling draws from uniform, normal or truncated_normal, not '{}'", distribution));
    return {};
  });
}
Initializer Orthogonal(double gain) {
  return Initializer("orthogonal", [gain](const Scope& scope, DType dtype, const Shape& shape) {
    return EmitOrthogonal(scope, dtype, shape, gain);
  });
}
Initializer Identity(double gain) {
  return Initializer("identity", [gain](const Scope& scope, DType dtype, const Shape& shape) -> Output {
    if (shape.rank() != 2) {
      scope.Fail(InvalidArgument("an identity as first value is a matrix, not {}", shape.ToString()));
      return {};
    }
    const Output eye = Eye(scope, dtype, shape.dim(0), shape.dim(1));
    return gain == 1 ? eye : scope.Op("Mul", {eye, Scalar(scope, dtype, gain, "gain")});
  });
}

namespace {

const std::vector<Initializer>& Known() {
  static const auto* const known = new std::vector<Initializer>{
      Zeros(),     Ones(),     RandomUniform(), RandomNormal(), TruncatedNormal(), GlorotUniform(), GlorotNormal(),
      HeUniform(), HeNormal(), LecunUniform(),  LecunNormal(),  VarianceScaling(), Orthogonal(),    Identity()};
  return *known;
}

}  // namespace

std::vector<std::string> InitializerNames() {
  std::vector<std::string> names;
  for (const Initializer& initializer : Known()) names.push_back(initializer.name());
  return names;
}

StatusOr<Initializer> InitializerByName(std::string_view name) {
  for (const Initializer& initializer : Known())
    if (initializer.name() == name) return initializer;
  return NotFound("there is no initializer '{}'.{}", name, DidYouMean(name, InitializerNames()));
}

}  // namespace rivulet
