// Exponentials and logarithms of floats: close to the true values, correct at the edges, and the same bits on all
// instruction sets.
#include <cmath>
#include <limits>

#include "engine/graph/scope.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  std::string op;
  double (*exact)(double);
  float low, high;  // where accuracy is measured
  double ulps;
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return std::log1p(std::exp(x)); }

const std::vector<Function>& Functions() {
  static const std::vector<Function> functions = {
      {"Exp", [](double x) { return std::exp(x); }, -87, 88.7f, 2},
      {"Log", [](double x) { return std::log(x); }, 1e-30f, 1e30f, 2},
      {"Log1p", [](double x) { return std::log1p(x); }, -0.999f, 1e4f, 3},
      {"Tanh", [](double x) { return std::tanh(x); }, -12, 12, 4},
      {"Sigmoid", Sigmoid, -80, 80, 3},
      {"Softplus", Softplus, -80, 60, 4},
  };
  return functions;
}

std::vector<float> Apply(const std::string& op, const std::vector<float>& x) {
  Graph graph;
  Scope scope(graph);
  const Tensor values = testing::Floats(x);
  const Output y = scope.Op(op, {scope.Placeholder("x", DType::kFloat32, values.shape())});
  return testing::Values(testing::RunGraph(graph, {{"x", values}}, {y.name()}));
}

// Dense around 0 and, for logarithms, over all magnitudes.
std::vector<float> Points(const Function& f) {
  std::vector<float> points;
  for (int i = 0; i <= 20000; ++i) {
    const double u = i / 20000.0;
    points.push_back(static_cast<float>(f.low + (static_cast<double>(f.high) - f.low) * u));
    const double small = (u - 0.5) * 2;
    if (small > f.low && small < f.high) points.push_back(static_cast<float>(small));
    if (small * small * small > f.low) points.push_back(static_cast<float>(small * small * small));
    if (f.op == "Log") points.push_back(static_cast<float>(std::exp((u - 0.5) * 120)));
  }
  return points;
}

TEST(FloatFunctions, AreWithinAFewUnitsInTheLastPlace) {
  for (const Function& f : Functions()) {
    const std::vector<float> x = Points(f), y = Apply(f.op, x);
    double worst = 0, at = 0;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      const double exact = f.exact(static_cast<double>(x[i]));
      const auto magnitude = static_cast<float>(std::abs(exact));
      if (magnitude < std::numeric_limits<float>::min()) continue;
      const double ulp = static_cast<double>(std::nextafter(magnitude, kInf)) - static_cast<double>(magnitude);
      const double error = std::abs(static_cast<double>(y[i]) - exact) / ulp;
      if (!(error <= worst)) {
        worst = error;
        at = static_cast<double>(x[i]);
      }
    }
    EXPECT_LE(worst, f.ulps) << f.op << " at " << at;
  }
}

TEST(FloatFunctions, EdgesAreTheMathematicalOnes) {
  const std::vector<float> edges = {0, kInf, -kInf, 1000, -1000};
  const std::vector<std::pair<std::string, std::vector<float>>> expected = {
      {"Exp", {1, kInf, 0, kInf, 0}},
      {"Log", {-kInf, kInf, kNan, std::log(1000.0f), kNan}},
      {"Log1p", {0, kInf, kNan, std::log1p(1000.0f), kNan}},
      {"Tanh", {0, 1, -1, 1, -1}},
      {"Sigmoid", {0.5f, 1, 0, 1, 0}},
      {"Softplus", {std::log(2.0f), kInf, 0, 1000, 0}},
  };
  for (const auto& [op, values] : expected) {
    const std::vector<float> actual = Apply(op, edges);
    ASSERT_EQ(actual.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]))
        EXPECT_TRUE(std::isnan(actual[i])) << op << " of " << edges[i] << " is " << actual[i];
      else
        EXPECT_FLOAT_EQ(actual[i], values[i]) << op << " of " << edges[i];
    }
    EXPECT_TRUE(std::isnan(Apply(op, {kNan})[0])) << op << " of NaN";
  }
  EXPECT_EQ(Apply("Log", {1})[0], 0);
  EXPECT_EQ(Apply("Log1p", {-1})[0], -kInf);
  EXPECT_TRUE(std::signbit(Apply("Tanh", {-0.0f})[0]));
}

TEST(FloatFunctions, EveryInstructionSet_GivesTheSameBits) {
  for (const Function& f : Functions()) {
    const std::vector<float> x = Points(f), reference = Apply(f.op, x);
    testing::OnEveryTarget([&](const std::string& target) {
      const std::vector<float> y = Apply(f.op, x);
      ASSERT_EQ(y.size(), reference.size());
      EXPECT_EQ(std::memcmp(y.data(), reference.data(), y.size() * sizeof(float)), 0) << f.op << " on " << target;
    });
  }
}

}  // namespace
}  // namespace rivulet
