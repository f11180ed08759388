// Initial values of variables, computed as in Keras. They are emitted as graph nodes, so that a plan contains them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Emits nodes whose output is an initial value of the given shape. Fans are those of Keras. A matrix [in, out] has its
// dimensions; a filter [height, width, in, out] has in and out times the receptive field; a vector has its length.
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
                            double stddev = 0.05);  // redrawn beyond two stddev, where stddev is that before truncation
Initializer GlorotUniform();
Initializer GlorotNormal();
Initializer HeUniform();
Initializer HeNormal();
Initializer LecunUniform();
Initializer LecunNormal();

// Draws values of variance scale / fan ("fan_in", "fan_out", "fan_avg") as "uniform", "normal" or "truncated_normal",
// which is divided by its own deviation. Glorot, He and LeCun are special cases. Errors go to the scope at use.
Initializer VarianceScaling(double scale = 1, std::string mode = "fan_in",
                            std::string distribution = "truncated_normal");
// Returns `gain` times a matrix [all but the last axis, last axis] with orthonormal rows or columns, whichever are
// fewer. Saxe et al., ICLR 2014. Needs two axes or more.
Initializer Orthogonal(double gain = 1);
// Returns a matrix with `gain` on the diagonal.
Initializer Identity(double gain = 1);

// Finds "glorot_uniform" and others, with the defaults above ("constant" has none). NOT_FOUND names the nearest.
StatusOr<Initializer> InitializerByName(std::string_view name);
std::vector<std::string> InitializerNames();

}  // namespace rivulet
