// Gradients of activations, normalisations and losses against finite differences, for each attribute that changes the
// formula.
#include "engine/layers/activations.h"
#include "engine/layers/losses.h"
#include "engine/layers/scalar.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::CheckGradients;
using testing::DistinctTensor;
using testing::GradientCheckOptions;
using testing::RandomTensor;

using Outputs = std::vector<Output>;

struct Case {
  std::string name;
  std::vector<Tensor> inputs;
  BuildFn build;
  bool second_order = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class NnGradient : public ::testing::TestWithParam<Case> {};

TEST_P(NnGradient, EqualsFiniteDifference) {
  GradientCheckOptions options;
  options.second_order = GetParam().second_order;
  const Status status = CheckGradients(GetParam().inputs, GetParam().build, options);
  EXPECT_OK(status);
}

// The op's first output: the others are statistics, which carry no gradient.
BuildFn First(std::string op, AttrMap attrs = {}) {
  return [=](const Scope& scope, const Outputs& x) { return Outputs{scope.Op(op, x, attrs)}; };
}

Tensor X(Shape shape, uint64_t seed = 1) { return RandomTensor(std::move(shape), seed, -2, 2); }

std::vector<Case> Activations() {
  std::vector<Case> cases;
  const Tensor wide = DistinctTensor({4, 6}, 11, 0.35);  // from about -4 to 4
  for (const std::string op : {"Elu", "Selu", "Softsign", "Gelu", "Erf", "Erfc"})
    cases.push_back({op, {X({3, 4})}, First(op)});
  cases.push_back({"Relu6", {DistinctTensor({4, 10}, 12, 0.37)}, First("Relu6")});
  cases.push_back({"LeakyRelu", {wide}, First("LeakyRelu")});
  cases.push_back({"LeakyRelu_alpha", {wide}, First("LeakyRelu", {{"alpha", 0.03f}})});
  cases.push_back({"Gelu_approximate", {wide}, First("Gelu", {{"approximate", true}})});
  for (const std::string op : {"Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftsignGrad", "GeluGrad"})
    cases.push_back({op, {X({4, 6}, 3), wide}, First(op)});
  cases.push_back({"GeluGrad_approximate", {X({4, 6}, 3), wide}, First("GeluGrad", {{"approximate", true}})});
  cases.push_back({"ClipByValue", {wide, Tensor::Scalar(-1.01), Tensor::Scalar(1.53)}, First("ClipByValue")});
  cases.push_back(
      {"ClipByValue_bounds",
       {DistinctTensor({2, 3}, 13, 0.4), RandomTensor({3}, 4, -0.19, -0.1), RandomTensor({2, 1}, 5, 0.1, 0.19)},
       First("ClipByValue")});
  const auto add = [&](std::string name, Output (*function)(const Scope&, Output)) {
    cases.push_back({name, {wide}, [=](const Scope& s, const Outputs& x) { return Outputs{function(s, x[0])}; }});
  };
  add("Swish", Swish);
  add("HardSwish", HardSwish);
  add("Mish", Mish);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Activations, NnGradient, ::testing::ValuesIn(Activations()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> Normalisations() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::string op, Shape x, Shape scale, AttrMap attrs) {
    std::vector<Tensor> inputs = {X(std::move(x), 1), X(scale, 2)};
    if (op != "RmsNorm") inputs.push_back(X(scale, 3));
    cases.push_back({op + name, std::move(inputs), First(op, std::move(attrs))});
  };
  for (const std::string op : {"LayerNorm", "RmsNorm"}) {
    add("", op, {3, 5}, {5}, {});
    add("_epsilon", op, {3, 5}, {5}, {{"epsilon", 0.5f}});
    add("_axes", op, {2, 3, 2}, {3, 2}, {{"begin_norm_axis", int64_t{1}}});
    add("_all", op, {4, 2}, {4, 2}, {{"begin_norm_axis", int64_t{-2}}});
  }
  for (const std::string format : {"NHWC", "NCHW"}) {
    const Shape x = format == "NHWC" ? Shape{2, 2, 3, 4} : Shape{2, 4, 2, 3};
    add("_" + format, "GroupNorm", x, {4}, {{"num_groups", int64_t{2}}, {"data_format", format}});
    add("_" + format, "InstanceNorm", x, {4}, {{"epsilon", 0.1f}, {"data_format", format}});
    for (bool training : {true, false}) {
      const AttrMap attrs = {{"is_training", training}, {"data_format", format}, {"epsilon", 0.01f}};
      cases.push_back({std::string("BatchNorm_") + format + (training ? "_training" : "_inference"),
                       {X(x, 1), X({4}, 2), X({4}, 3)},
                       [=](const Scope& s, const Outputs& in) {
                         const Output mean = s.Const(Tensor::Of<double>({4}, {0.1, -0.2, 0.3, 0}));
                         const Output variance = s.Const(Tensor::Of<double>({4}, {1, 0.5, 2, 0.1}));
                         return Outputs{s.Op("FusedBatchNormV3", {in[0], in[1], in[2], mean, variance}, attrs)};
                       }});
    }
  }
  add("_vector_of_channels", "GroupNorm", {3, 6}, {6}, {{"num_groups", int64_t{2}}});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Normalisations, NnGradient, ::testing::ValuesIn(Normalisations()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> Mathematics() {
  std::vector<Case> cases;
  const auto add = [&](std::string op, double low, double high, bool second_order = true) {
    cases.push_back({op, {RandomTensor({2, 3}, 31, low, high)}, First(op), second_order});
  };
  for (const char* op : {"Sin", "Cos", "Sinh", "Cosh", "Asinh", "Atan", "Expm1"}) add(op, -2, 2);
  for (const char* op : {"Tan", "Asin", "Acos", "Atanh", "Erfinv"}) add(op, -0.8, 0.8);
  add("Acosh", 1.2, 3);
  add("Reciprocal", 0.5, 2);
  add("Inv", -2, -0.5);
  add("Ndtri", 0.1, 0.9);
  add("Lgamma", 0.5, 4, /*second_order=*/false);
  for (const char* op : {"Ceil", "Round", "Rint"}) add(op, 0.1, 0.4);
  for (const char* op : {"Atan2", "Xdivy", "Xlogy", "Xlog1py", "MulNoNan"})
    cases.push_back({op, {RandomTensor({2, 3}, 32, 0.5, 2), RandomTensor({3}, 33, 0.5, 2)}, First(op)});
  // Off the jumps: x between 2.2 and 2.8 times y, both signs.
  const Tensor x = Tensor::Of<double>({2, 2}, {2.3, -2.6, 4.6, -5.1}), y = Tensor::Of<double>({2, 1}, {1, 2});
  for (const char* op : {"FloorMod", "TruncateMod", "Mod", "TruncateDiv"}) cases.push_back({op, {x, y}, First(op)});
  cases.push_back({"Print", {X({2, 2})}, [](const Scope& s, const Outputs& in) {
                     return Outputs{s.Op("Print", {s.Op("Square", {in[0]})}, {{"first_n", int64_t{0}}})};
                   }});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Mathematics, NnGradient, ::testing::ValuesIn(Mathematics()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> Losses() {
  const Tensor x = DistinctTensor({3, 4}, 21, 0.31), y = RandomTensor({3, 4}, 22, -0.1, 0.1);
  const Tensor probabilities = RandomTensor({3, 4}, 23, 0.1, 0.9);
  std::vector<Case> cases;
  const auto add = [&](std::string name, Output (*loss)(const Scope&, Output, Output), std::vector<Tensor> inputs) {
    cases.push_back({name, inputs, [=](const Scope& s, const Outputs& in) { return Outputs{loss(s, in[0], in[1])}; }});
  };
  add("SquaredError", SquaredError, {x, y});
  add("HuberLoss", [](const Scope& s, Output a, Output b) { return HuberLoss(s, a, b, 0.8); }, {x, y});
  add("SigmoidCrossEntropy", SigmoidCrossEntropyWithLogits, {x, probabilities});
  // The op's gradient supposes labels that sum to 1.
  for (const auto& [name, features, labels] :
       {std::tuple{"LabelRow", Shape{3, 4}, Shape{1, 4}}, std::tuple{"FeatureRow", Shape{1, 4}, Shape{3, 4}}})
    cases.push_back(
        {std::string("CrossEntropy_") + name, {X(features, 1), X(labels, 2)}, [](const Scope& s, const Outputs& in) {
           return Outputs{s.Op("SoftmaxCrossEntropyWithLogits", {in[0], s.Op("Softmax", {in[1]})})};
         }});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Losses, NnGradient, ::testing::ValuesIn(Losses()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rivulet
