// Einsum against the definition (a loop over all labels), in every type and on random equations; its gradients against
// finite differences; what is refused.
#include "engine/ops/einsum.h"

#include <gmock/gmock.h>

#include <map>

#include "engine/base/philox.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::CheckGradients;
using ::testing::HasSubstr;
using testing::KnownShapes;
using testing::RandomTensor;

StatusOr<Tensor> Evaluate(const std::string& equation, const std::vector<Tensor>& inputs, KernelPolicy policy = {}) {
  Graph graph;
  Scope scope(graph);
  std::vector<Output> outputs;
  testing::Feeds feeds;
  for (const Tensor& input : inputs) {
    outputs.push_back(scope.Placeholder(fmt::format("x{}", outputs.size()), input.dtype(), input.shape()));
    feeds.emplace_back(outputs.back().name(), input);
  }
  const Output result = scope.Op("Einsum", outputs, {{"equation", equation}});
  RIVULET_RETURN_IF_ERROR(scope.status());
  CompileOptions options;
  options.kernels = policy;
  RIVULET_ASSIGN_OR_RETURN(auto compiled, testing::CompiledGraph::Compile(graph, feeds, {result.name()}, options));
  RIVULET_ASSIGN_OR_RETURN(auto values, compiled.Run(feeds));
  return values.front();
}

int64_t Offset(const std::vector<int>& labels, const Shape& shape, const std::map<int, int64_t>& at) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    offset = offset * shape.dim(axis) + (shape.dim(axis) == 1 ? 0 : at.at(labels[static_cast<size_t>(axis)]));
  return offset;
}

// The definition: for every value of every label, the product of the operands goes to its place in the output.
std::vector<double> ByDefinition(const std::string& equation, const std::vector<Tensor>& inputs, const Shape& output) {
  const auto parsed = EinsumEquation::Parse(equation, inputs.size());
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  const auto labels = ResolveEinsum(*parsed, shapes);
  std::map<int, int64_t> at;
  for (const auto& term : labels->inputs)
    for (int label : term) at[label] = 0;
  std::vector<double> result(static_cast<size_t>(output.elements()), 0);
  for (const auto& [label, index] : at)
    if (labels->sizes[static_cast<size_t>(label)] == 0) return result;
  while (true) {
    double product = 1;
    for (size_t i = 0; i < inputs.size(); ++i)
      product *= inputs[i].flat<double>()[static_cast<size_t>(Offset(labels->inputs[i], shapes[i], at))];
    result[static_cast<size_t>(Offset(labels->output, output, at))] += product;
    auto digit = at.begin();
    for (; digit != at.end(); ++digit) {
      if (++digit->second < labels->sizes[static_cast<size_t>(digit->first)]) break;
      digit->second = 0;
    }
    if (digit == at.end()) return result;
  }
}

template <typename T>
Tensor CastTo(const Tensor& tensor) {
  Tensor cast(kDTypeOf<T>, tensor.shape());
  for (size_t i = 0; i < cast.flat<T>().size(); ++i) cast.flat<T>()[i] = static_cast<T>(tensor.flat<double>()[i]);
  return cast;
}

void ExpectDefinition(const std::string& equation, const std::vector<Tensor>& inputs) {
  SCOPED_TRACE(equation);
  const auto wide = Evaluate(equation, inputs);
  ASSERT_OK(wide);
  const std::vector<double> expected = ByDefinition(equation, inputs, wide->shape());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(wide->flat<double>()[i], expected[i], 1e-11) << i;
  std::vector<Tensor> narrow;
  for (const Tensor& input : inputs) narrow.push_back(CastTo<float>(input));
  for (bool portable : {false, true}) {
    const auto floats = Evaluate(equation, narrow, {.portable = portable});
    ASSERT_OK(floats);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(floats->flat<float>()[i], expected[i], 2e-4) << i;
  }
}

struct Example {
  std::string equation;
  std::vector<Shape> shapes;
};

const std::vector<Example>& Examples() {
  static const std::vector<Example> examples = {
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,kj->ik", {{3, 4}, {5, 4}}},
      {"ji,jk->ki", {{4, 3}, {4, 5}}},
      {"ij,jk", {{3, 4}, {4, 5}}},
      {"ba,bc", {{4, 3}, {4, 5}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
      {"bhqk,bkhd->bqhd", {{2, 2, 3, 5}, {2, 5, 2, 4}}},
      {"bsd,dhk->bshk", {{2, 3, 4}, {4, 2, 3}}},
      {"bshk,hkd->bsd", {{2, 3, 2, 3}, {2, 3, 4}}},
      {"i,i->", {{7}, {7}}},
      {"i,i->i", {{7}, {7}}},
      {"i,j->ij", {{3}, {4}}},
      {"i,j->ji", {{3}, {4}}},
      {"ij,j->i", {{3, 5}, {5}}},
      {"ij->ji", {{3, 4}}},
      {"ij->", {{3, 4}}},
      {"ij->i", {{3, 4}}},
      {"ij->j", {{3, 4}}},
      {"ii->i", {{4, 4}}},
      {"ii->", {{4, 4}}},
      {"ii", {{4, 4}}},
      {"i->ii", {{4}}},
      {"iij->ji", {{3, 3, 2}}},
      {"iji->j", {{3, 2, 3}}},
      {"ij,jk->k", {{3, 4}, {4, 5}}},
      {"ij,jk->", {{3, 4}, {4, 5}}},
      {"iij,jk->ik", {{3, 3, 4}, {4, 2}}},
      {"ij,ij->ii", {{3, 4}, {3, 4}}},
      {"...ij,...jk->...ik", {{2, 3, 3, 4}, {2, 3, 4, 5}}},
      {"...ij,...jk->...ik", {{2, 1, 3, 4}, {3, 4, 5}}},
      {"...ij,jk->...ik", {{2, 2, 3, 4}, {4, 5}}},
      {"i...,i...->...", {{3, 2, 1}, {3, 1, 4}}},
      {"a...b,b...->...a", {{2, 3, 4}, {4, 2, 3}}},
      {"...->", {{2, 3}}},
      {"...i,...j", {{2, 3}, {2, 4}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}},
      {"ij,jk,kl,lm->im", {{2, 5}, {5, 3}, {3, 4}, {4, 2}}},
      {"i,ij,j->", {{3}, {3, 4}, {4}}},
      {"ab,bc,ca->abc", {{2, 3}, {3, 4}, {4, 2}}},
      {"a,b,c,d,e,f->fedcba", {{2}, {3}, {1}, {2}, {2}, {2}}},
      {"ab,bc,cd,de,ef,fg->ag", {{2, 3}, {3, 2}, {2, 3}, {3, 2}, {2, 3}, {3, 2}}},
      {",ij->ij", {{}, {2, 3}}},
      {",->", {{}, {}}},
      {"ij,jk->ik", {{3, 0}, {0, 5}}},
      {"ij,jk->ik", {{0, 3}, {3, 5}}},
      {"ij,jk->ik", {{3, 1}, {1, 5}}},
      {"ijk,jil->kl", {{3, 4, 5}, {4, 3, 6}}},
      {"abcd,acbe->de", {{2, 3, 2, 3}, {2, 2, 3, 4}}},
      {"bi,bi->b", {{5, 40}, {5, 40}}},
      {"ij,kj->ik", {{2, 50}, {20, 50}}},
  };
  return examples;
}

TEST(Einsum, Examples_AreTheDefinition) {
  for (const Example& example : Examples()) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : example.shapes) inputs.push_back(RandomTensor(shape, 3 + inputs.size()));
    ExpectDefinition(example.equation, inputs);
  }
}

// Up to four operands of up to four labels out of six, in every order.
TEST(Einsum, RandomEquations_AreTheDefinition) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    uint32_t draws = 0;
    const auto draw = [&](uint32_t below) { return Philox4x32({{seed, 7}}, {draws++, 0, 0, 0})[0] % below; };
    std::map<char, int64_t> sizes;
    for (char label = 'a'; label <= 'f'; ++label) sizes[label] = 1 + draw(4);
    std::string equation, all;
    std::vector<Tensor> inputs;
    const uint32_t operands = 1 + draw(4);
    for (uint32_t i = 0; i < operands; ++i) {
      if (i > 0) equation += ',';
      std::vector<int64_t> dims;
      for (uint32_t axes = draw(5); axes > 0; --axes) {
        const char label = static_cast<char>('a' + draw(6));
        equation += label;
        if (all.find(label) == std::string::npos) all += label;
        dims.push_back(sizes[label]);
      }
      inputs.push_back(RandomTensor(Shape(std::move(dims)), seed + i));
    }
    equation += "->";
    for (size_t i = all.size(); i-- > 0;) {
      std::swap(all[i], all[draw(static_cast<uint32_t>(i) + 1)]);
      if (draw(2) == 0) equation += all[i];
    }
    ExpectDefinition(equation, inputs);
  }
}

TEST(Einsum, Integers_WrapAround) {
  const Tensor big = Tensor::Of<int32_t>({2}, {1 << 30, 1 << 30});
  const auto product = Evaluate("i,j->ij", {big, Tensor::Of<int32_t>({1}, {4})});
  ASSERT_OK(product);
  EXPECT_EQ(product->flat<int32_t>()[1], 0);
  const auto sum = Evaluate("i,i->", {Tensor::Of<int64_t>({3}, {1, 2, 3}), Tensor::Of<int64_t>({3}, {4, 5, 6})});
  ASSERT_OK(sum);
  EXPECT_EQ(sum->flat<int64_t>()[0], 32);
}

// A matrix chain whose cheap order is the right one: (2·100)·(100·2) first would need 100·100 elements otherwise.
TEST(Einsum, Chain_IsContractedInTheCheapOrder) {
  Graph graph;
  Scope scope(graph);
  testing::Feeds feeds;
  std::vector<Output> inputs;
  for (const Shape& shape : {Shape{100, 2}, Shape{2, 100}, Shape{100, 1}}) {
    inputs.push_back(scope.Placeholder(fmt::format("x{}", inputs.size()), DType::kFloat64, shape));
    feeds.emplace_back(inputs.back().name(), RandomTensor(shape, 5));
  }
  const Output y = scope.Op("Einsum", inputs, {{"equation", std::string("ij,jk,kl->il")}});
  const auto compiled = testing::CompiledGraph::Compile(graph, feeds, {y.name()});
  ASSERT_OK(compiled);
  EXPECT_EQ(compiled->program().instructions()[0].flops, 2 * (2 * 100 * 1) + 2 * (100 * 2 * 1));
}

TEST(EinsumGradient, Examples_EqualFiniteDifference) {
  for (const Example& example : Examples()) {
    SCOPED_TRACE(example.equation);
    std::vector<Tensor> inputs;
    for (const Shape& shape : example.shapes) inputs.push_back(RandomTensor(shape, 3 + inputs.size()));
    testing::GradientCheckOptions options;
    options.second_order = example.shapes.size() <= 2;
    const Status status = CheckGradients(
        inputs,
        [&](const Scope& scope, const std::vector<Output>& x) {
          return std::vector{scope.Op("Einsum", x, {{"equation", example.equation}})};
        },
        options);
    EXPECT_OK(status);
  }
}

std::string Refusal(const std::string& equation, const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(Tensor(DType::kFloat32, shape));
  return testing::ErrorOf(Evaluate(equation, inputs));
}

TEST(Einsum, MalformedEquations_AreRefusedByName) {
  EXPECT_THAT(Refusal("ij,jk->ik", {{2, 3}}), HasSubstr("2 terms for 1 operands"));
  EXPECT_THAT(Refusal("i1->i", {{2, 3}}), HasSubstr("'1', which is neither a letter"));
  EXPECT_THAT(Refusal("i......->i", {{2, 3}}), HasSubstr("two ellipses"));
  EXPECT_THAT(Refusal("i->j", {{2}}), HasSubstr("'j' in its output, but in no operand"));
  EXPECT_THAT(Refusal("i->...", {{2}}), HasSubstr("'...' in its output, but in no operand"));
  EXPECT_THAT(Refusal("ij->i", {{2}}), HasSubstr("names 2 axes, but operand 0 is [2]"));
  EXPECT_THAT(Refusal("ij...->i", {{2}}), HasSubstr("names 2 axes"));
  EXPECT_THAT(Refusal("ij,jk->ik", {{2, 3}, {4, 5}}), HasSubstr("label 'j' of 'ij,jk->ik' has sizes 3 and 4"));
  EXPECT_THAT(Refusal("ii->i", {{2, 3}}), HasSubstr("label 'i'"));
  EXPECT_THAT(Refusal("...,...->...", {{2}, {3}}), HasSubstr("Einsum"));
  EXPECT_THAT(Refusal(std::string(5000, 'a'), {{2}}), HasSubstr("5000 characters"));
  EXPECT_THAT(Refusal("i->->i", {{2}}), HasSubstr("'-'"));
}

}  // namespace
}  // namespace rivulet
