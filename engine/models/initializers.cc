#include "engine/models/initializers.h"

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

}  // namespace

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

StatusOr<Initializer> InitializerByName(std::string_view name) {
  static const std::vector<Initializer> known = {Zeros(),           Ones(),          RandomUniform(), RandomNormal(),
                                                 TruncatedNormal(), GlorotUniform(), GlorotNormal(),  HeUniform(),
                                                 HeNormal(),        LecunUniform(),  LecunNormal()};
  std::vector<std::string> names;
  for (const Initializer& initializer : known) {
    if (initializer.name() == name) return initializer;
    names.push_back(initializer.name());
  }
  return NotFound("there is no initializer '{}'.{}", name, DidYouMean(name, names));
}

}  // namespace rivulet
