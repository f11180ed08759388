// Conversions fused into the kernels that use their results: the same numbers, and only without other uses.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/kernels/cpu/vector/has_tiles.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

constexpr int64_t kExamples = 10, kFeatures = 37, kUnits = 20;

// y = x·w forward and x·(dy, w) backward, in bfloat16, of float32 weights in a variable; w is changed at the end or,
// `early`, between the two products.
struct NarrowLayer {
  Graph graph;
  Signature signature;

  explicit NarrowLayer(bool fetch_rounded = false, bool early = false) {
    const Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kExamples, kFeatures});
    const Output w = VariableHandle(scope, "w", Shape{kFeatures, kUnits});
    signature.variables.push_back({"w", 0, 0, F32({kFeatures, kUnits})});
    const auto cast = [](const Scope& s, Output from, DType to, std::string_view name) {
      return s.Op("Cast", {from}, {{"DstT", to}}, std::string(name));
    };
    const Output narrow_x = cast(scope, x, DType::kBFloat16, "narrow_x");
    const Output rounded = cast(scope, ReadVariable(scope, w), DType::kBFloat16, "rounded");
    const Output y = scope.Op("MatMul", {narrow_x, rounded}, {}, "y");
    const auto update = [&](const Scope& s, Output gradient) {
      return s.AddNode("ResourceApplyGradientDescent", {w, s.Const(0.5f), gradient}, {}, "update");
    };
    const Output dx = [&] {
      Scope second = scope;
      if (early) second = scope.WithControl({update(scope.WithControl({y.node}), ReadVariable(scope, w))});
      return second.Op("MatMul", {y, rounded}, {{"transpose_b", true}}, "dx");
    }();
    const Output gradient = scope.Op(
        "MatMul", {cast(scope, narrow_x, DType::kFloat32, "wide_x"), cast(scope, y, DType::kFloat32, "wide_y")},
        {{"transpose_a", true}}, "gradient");
    if (!early) update(scope.WithControl({dx.node}), gradient);
    cast(scope, dx, DType::kFloat32, "wide_dx");
    EXPECT_OK(scope.status());
    signature.feeds = {{"x", F32({kExamples, kFeatures})}};
    signature.fetches = {"wide_dx"};
    if (fetch_rounded) signature.fetches.emplace_back("rounded");
    signature.targets = {"update"};
  }

  StatusOr<std::shared_ptr<const Program>> Compile(bool fused) const {
    CompileOptions options;
    if (!fused) options.passes.without = {"fuse_casts"};
    return CompileProgram(graph, signature, options);
  }
};

std::vector<std::string> CastsOf(const Program& program) {
  std::vector<std::string> names;
  for (const Instruction& instruction : program.instructions())
    if (instruction.op == "Cast" && instruction.implementation != "fetch") names.push_back(instruction.node);
  return names;
}

std::vector<float> Waves(size_t count, float step) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = std::sin(step * static_cast<float>(i + 1));
  return numbers;
}

// The weights after a run, and what it fetched first.
std::pair<std::vector<float>, std::vector<float>> OutcomeOf(const Program& program) {
  std::vector<float> x = Waves(kExamples * kFeatures, 0.7f), dx(kExamples * kFeatures);
  AlignedBuffer weights(kFeatures * kUnits * sizeof(float));
  const std::vector<float> start = Waves(kFeatures * kUnits, 0.3f);
  std::memcpy(weights.data(), start.data(), weights.size());
  AlignedBuffer rounded(kFeatures * kUnits * sizeof(bfloat16)), arena(program.memory().arena_bytes);
  const std::vector<TensorView> feeds = {
      {reinterpret_cast<std::byte*>(x.data()), DType::kFloat32, {kExamples, kFeatures}}};
  std::vector<TensorView> fetches = {{reinterpret_cast<std::byte*>(dx.data()), DType::kFloat32, {kExamples, kFeatures}},
                                     {rounded.data(), DType::kBFloat16, {kFeatures, kUnits}}};
  fetches.resize(program.fetch_specs().size());
  std::vector<Buffer> buffers = {{weights.data()}};
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.buffers = buffers;
  const auto instance = program.Instantiate();
  EXPECT_OK(instance);
  EXPECT_OK((*instance)->Run(bindings));
  std::vector<float> after(kFeatures * kUnits);
  std::memcpy(after.data(), weights.data(), weights.size());
  return {after, dx};
}

class CastFusionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EnterWorkerThread();
    if (!HasTiles()) GTEST_SKIP() << "no kernel here reads what is before a Cast";
  }
};

TEST_F(CastFusionTest, RoundedWeightsAndWidenedFactors_AreNotMade) {
  const NarrowLayer layer;
  ASSERT_OK_AND_ASSIGN(const auto fused, layer.Compile(true));
  ASSERT_OK_AND_ASSIGN(const auto apart, layer.Compile(false));
  EXPECT_THAT(CastsOf(*fused), ::testing::ElementsAre("narrow_x", "wide_dx"));
  EXPECT_THAT(CastsOf(*apart), ::testing::UnorderedElementsAre("narrow_x", "rounded", "wide_x", "wide_y", "wide_dx"));
  EXPECT_LT(fused->memory().arena_bytes, apart->memory().arena_bytes);
  const auto [weights, dx] = OutcomeOf(*fused);
  const auto [weights_apart, dx_apart] = OutcomeOf(*apart);
  EXPECT_EQ(dx, dx_apart);
  for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(weights[i], weights_apart[i], 4e-5f) << i;
}

TEST_F(CastFusionTest, RoundedWeightsThatSomebodyFetches_AreMade) {
  const NarrowLayer layer(/*fetch_rounded=*/true);
  ASSERT_OK_AND_ASSIGN(const auto fused, layer.Compile(true));
  EXPECT_THAT(CastsOf(*fused), ::testing::Contains("rounded"));
  ASSERT_OK_AND_ASSIGN(const auto apart, layer.Compile(false));
  EXPECT_EQ(OutcomeOf(*fused).second, OutcomeOf(*apart).second);
}

// The second product is to see the weights of before.
TEST_F(CastFusionTest, WeightsThatChangeBetweenTheirUses_AreRoundedOnce) {
  const NarrowLayer layer(/*fetch_rounded=*/false, /*early=*/true);
  ASSERT_OK_AND_ASSIGN(const auto fused, layer.Compile(true));
  EXPECT_THAT(CastsOf(*fused), ::testing::Contains("rounded"));
  ASSERT_OK_AND_ASSIGN(const auto apart, layer.Compile(false));
  EXPECT_EQ(OutcomeOf(*fused), OutcomeOf(*apart));
}

}  // namespace
}  // namespace rivulet::testing
