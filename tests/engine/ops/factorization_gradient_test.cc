// Gradients of factorisations. Signs of eigenvectors and singular vectors are free, so the functions here take their
// squares; the numbers are TensorFlow's (2.21). Gradients that reach values alone are in
// tests/conformance/ops/factorization_reference.json.
#include <gmock/gmock.h>

#include "engine/gradients/gradients.h"
#include "engine/graph/scope.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::RunGraph;

// 1, 4, 9, 4, 10, 18, …: another factor for each element.
Output Weighted(const Scope& scope, Output values) {
  Tensor weights(DType::kFloat64, values.shape());
  for (int64_t i = 0; i < weights.elements(); ++i)
    weights.flat<double>()[static_cast<size_t>(i)] = static_cast<double>((i + 1) * (1 + i % 3));
  const Output flat = scope.Const(Tensor::Of<int32_t>({1}, {-1}));
  return scope.Op("Sum", {scope.Op("Reshape", {scope.Op("Mul", {values, scope.Const(weights)}), flat}),
                          scope.Const(Tensor::Scalar<int32_t>(0))});
}

// d/dx of the weighted sum of the first output and of the squares of the others.
StatusOr<std::vector<double>> GradientOf(const std::string& op, const Tensor& x, const AttrMap& attrs) {
  Graph graph;
  const Scope scope(graph);
  const Output input = scope.Placeholder("x", DType::kFloat64, x.shape());
  Node* node = scope.AddNode(op, {input}, attrs);
  RIVULET_RETURN_IF_ERROR(scope.status());
  Output loss = Weighted(scope, node->output(0));
  for (int port = 1; port < static_cast<int>(node->outputs().size()); ++port)
    loss = scope.Op("AddV2", {loss, Weighted(scope, scope.Op("Square", {node->output(port)}))});
  RIVULET_RETURN_IF_ERROR(scope.status());
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(graph, loss, std::vector{input}));
  RIVULET_ASSIGN_OR_RETURN(const auto values, RunGraph(graph, {{"x", x}}, {gradients[0].name()}));
  const auto flat = values[0].flat<double>();
  return std::vector<double>(flat.begin(), flat.end());
}

auto Near(std::vector<double> values) {
  std::vector<::testing::Matcher<double>> each;
  for (const double value : values) each.push_back(::testing::DoubleNear(value, 1e-10));
  return ::testing::ElementsAreArray(each);
}

TEST(FactorizationGradient, SvdOfATallMatrix_IsTensorFlows) {
  const auto gradient =
      GradientOf("Svd", Tensor::Of<double>({4, 2}, {0.61, 0.62, 0.03, -0.43, -0.89, -0.23, -0.18, -0.91}), {});
  ASSERT_OK(gradient);
  EXPECT_THAT(*gradient, Near({-9.27085888258734, 2.74459638465395, -7.96073717179886, 2.13154861804687,
                               -1.62298864012916, 1.98357768337662, 4.50275454125971, -10.3449491993075}));
}

TEST(FactorizationGradient, SvdOfAFlatMatrix_IsTensorFlows) {
  const auto gradient = GradientOf("Svd", Tensor::Of<double>({2, 3}, {-0.9, 1, 0.3, -0.53, -0.13, 0.95}), {});
  ASSERT_OK(gradient);
  EXPECT_THAT(*gradient, Near({-0.508441576498987, 4.31098973000825, -5.0553603826374, 7.4600356457329,
                               6.50565616883254, 7.04669367345644}));
}

TEST(FactorizationGradient, SvdOfASquareMatrix_IsTensorFlows) {
  const auto gradient =
      GradientOf("Svd", Tensor::Of<double>({3, 3}, {0.8, 0.69, -0.22, -0.01, 0.35, -0.88, 0.11, -0.46, 0.76}), {});
  ASSERT_OK(gradient);
  EXPECT_THAT(*gradient,
              Near({8.82776715038746, 3.88354711889431, -2.42699268171589, 3.47987590956137, -2.28713224972787,
                    -0.831239968425782, 3.09658225874805, -4.82300800220553, -8.66126319221759}));
}

TEST(FactorizationGradient, SvdWithFullMatrices_IsTensorFlows) {
  const auto gradient =
      GradientOf("Svd", Tensor::Of<double>({3, 2}, {-0.87, 0.36, 0.74, -0.55, 0.79, 0.74}), {{"full_matrices", true}});
  ASSERT_OK(gradient);
  EXPECT_THAT(*gradient, Near({-4.90966541750273, 6.14792608116821, -0.168869899034216, -5.46104297501589,
                               -6.21291673474632, 1.16366658993136}));
}

TEST(FactorizationGradient, EigenvectorsOfASymmetricMatrix_AreTensorFlows) {
  const auto gradient = GradientOf(
      "SelfAdjointEigV2", Tensor::Of<double>({3, 3}, {-1.92, 0.42, -1.35, 0.42, -0.26, 0.02, -1.35, 0.02, -0.74}), {});
  ASSERT_OK(gradient);
  EXPECT_THAT(*gradient, Near({1.99847623401701, 0, 0, 1.50680413925514, 3.91314534698711, 0, -6.18002614412316,
                               -2.09117688198235, 8.08837841899588}));
}

TEST(FactorizationGradient, CholeskyAndQr_EqualFiniteDifferences) {
  testing::GradientCheckOptions options;
  options.known_shapes = {testing::KnownShapes::kAll};
  const auto definite = [](const Scope& scope, const std::vector<Output>& x) {
    const Output square = scope.Op("BatchMatMulV2", {x[0], x[0]}, {{"adj_y", true}});
    return std::vector{scope.Op("Cholesky", {square})};
  };
  EXPECT_OK(testing::CheckGradients({testing::RandomTensor({2, 3, 4}, 1)}, definite, options));
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 3}, Shape{2, 3, 4}}) {
    SCOPED_TRACE(shape.ToString());
    const auto qr = [](const Scope& scope, const std::vector<Output>& x) {
      Node* node = scope.AddNode("Qr", {x[0]}, {{"full_matrices", false}});
      return node == nullptr ? std::vector<Output>{} : std::vector{node->output(0), node->output(1)};
    };
    EXPECT_OK(testing::CheckGradients({testing::RandomTensor(shape, 2)}, qr, options));
  }
}

TEST(FactorizationGradient, MatricesWithoutAGradient_AreRefusedWithTheReason) {
  const Tensor tall = testing::RandomTensor({5, 3}, 3);
  EXPECT_THAT(GradientOf("Svd", tall, {{"full_matrices", true}}).status().ToString(),
              HasSubstr("rows and columns differ by more than one"));
  EXPECT_THAT(GradientOf("Qr", tall, {{"full_matrices", true}}).status().ToString(),
              HasSubstr("more rows than columns"));
}

}  // namespace
}  // namespace rivulet
