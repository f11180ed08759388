// Initial values of variables, as Keras computes them; emitted as graph nodes, so that a plan contains them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Emits nodes whose output is a first value of the given shape. Fans are Keras': of a matrix [in, out] its dimensions,
// of a convolution filter [height, width, in, out] in and out times the receptive field, of a vector its length.
class Initializer {
 public:
  using Emit = std::function<Output(const Scope& scope, DType dtype, const Shape& shape)>;
  Initializer(std::string name, Emit emit) : name_(std::move(name)), emit_(std::move(emit)) {}
  const std::string& name() const { return name_; }
  // Errors go to the scope: an unknown shape, a type that is not floating for random values.
  Output operator()(const Scope& scope, DType dtype, const Shape& shape) const;

 private:
  std::string name_;
  Emit emit_;
};

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
Initializer RandomUniform(double low = -0.05, double high = 0.05);
Initializer RandomNormal(double mean = 0, double stddev = 0.05);
Initializer TruncatedNormal(double mean = 0,
                            double stddev = 0.05);  // redrawn beyond two stddev, which is before truncation
Initializer GlorotUniform();
Initializer GlorotNormal();
Initializer HeUniform();
Initializer HeNormal();
Initializer LecunUniform();
Initializer LecunNormal();

// A variance of scale / fan ("fan_in", "fan_out", "fan_avg"), drawn as "uniform", "normal" or "truncated_normal", which
// is divided by its own deviation. Glorot's, He's and LeCun's are cases of it. Errors go to the scope at use.
Initializer VarianceScaling(double scale = 1, std::string mode = "fan_in",
                            std::string distribution = "truncated_normal");
// Rows or columns (whichever are fewer) that are orthonormal times `gain`, of the matrix [all but the last axis, last
// axis]. Saxe et al., ICLR 2014. Needs two axes or more.
Initializer Orthogonal(double gain = 1);
// gain on the diagonal of a matrix.
Initializer Identity(double gain = 1);

// "glorot_uniform" and so on, with the defaults above ("constant" has none). NOT_FOUND names the nearest.
StatusOr<Initializer> InitializerByName(std::string_view name);
std::vector<std::string> InitializerNames();

}  // namespace rivulet
