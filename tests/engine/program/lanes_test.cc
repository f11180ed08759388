// Lanes have the same bits as separate runs of the same program, or are refused.
#include "engine/program/lanes.h"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/compile/compile_lanes.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAreArray;

constexpr int kLanes = 3;
constexpr int64_t kColumns = 5;

// A graph of one feed "x" and one variable "w", of which "y" is fetched.
struct Lanes {
  Graph graph;
  Signature signature;

  Output x(Shape shape) {
    signature.feeds = {{"x", F32(shape)}};
    return Scope(graph).Placeholder("x", DType::kFloat32, shape);
  }
  Output w(Shape shape) {
    signature.variables = {{"w", 0, 0, F32(shape)}};
    signature.fetches = {"y"};
    const Scope scope(graph);
    return ReadVariable(scope, VariableHandle(scope, "w", shape));
  }

  static std::vector<float> Fed(int lane, int64_t elements) {
    std::vector<float> values;
    for (int64_t i = 0; i < elements; ++i) values.push_back(0.25f * static_cast<float>(i * 7 % 11 - 5 + lane));
    return values;
  }
  static void FillVariable(std::span<float> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = 0.1f * static_cast<float>(i % 9) - 0.35f;
  }

  // What "y" is of each lane, one behind the other, by kLanes runs of the program by itself.
  std::vector<float> OneByOne() const {
    const size_t floats = static_cast<size_t>(signature.variables[0].spec.shape.elements());
    auto runner = Runner::Create(graph, signature, {floats});
    EXPECT_OK(runner);
    FillVariable((*runner)->floats(0));
    std::vector<float> all;
    const Shape& shape = signature.feeds[0].spec.shape;
    for (int lane = 0; lane < kLanes; ++lane) {
      EXPECT_OK((*runner)->Run({Tensor::Of<float>(shape, Fed(lane, shape.elements()))}));
      const auto y = (*runner)->fetched[0].flat<float>();
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  }

  StatusOr<std::vector<float>> Together() const {
    RIVULET_ASSIGN_OR_RETURN(const auto program, CompileLanes(graph, signature));
    const auto instance = program->Instantiate(kLanes);
    AlignedBuffer arena(kLanes * program->arena_bytes());
    if (arena.size() > 0) std::memset(arena.data(), 0xA5, arena.size());
    const size_t floats = static_cast<size_t>(signature.variables[0].spec.shape.elements());
    AlignedBuffer memory(floats * sizeof(float));
    FillVariable({reinterpret_cast<float*>(memory.data()), floats});
    const Buffer buffer{memory.data()};
    const FeedSpec& feed = signature.feeds[0];
    std::vector<float> fed;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::vector<float> values = Fed(lane, feed.spec.shape.elements());
      fed.insert(fed.end(), values.begin(), values.end());
    }
    const TensorSpec& spec = program->fetch_specs()[0];
    std::vector<float> fetched(static_cast<size_t>(kLanes * spec.shape.elements()));
    const TensorView in{reinterpret_cast<std::byte*>(fed.data()), DType::kFloat32, feed.spec.shape};
    const TensorView out{reinterpret_cast<std::byte*>(fetched.data()), DType::kFloat32, spec.shape};
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.buffers = {&buffer, 1};
    bindings.feeds = {&in, 1};
    bindings.fetches = {&out, 1};
    bindings.lanes = kLanes;
    RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
    return fetched;
  }
};

TEST(LanesTest, RowsTimesSharedWeights_AreThoseOfEachLaneAlone) {
  Lanes lanes;
  const Scope scope(lanes.graph);
  scope.Op("Relu", {scope.Op("MatMul", {lanes.x({4, kColumns}), lanes.w({kColumns, 6})})}, {}, "y");
  ASSERT_OK(scope.status());
  const auto together = lanes.Together();
  ASSERT_OK(together);
  EXPECT_THAT(*together, ElementsAreArray(lanes.OneByOne()));
}

// What no feed reaches is made once, and each lane reads it.
TEST(LanesTest, SharedValueReadByEachLane_IsWholeForAll) {
  Lanes lanes;
  const Scope scope(lanes.graph);
  const Output shared = scope.Op("Tanh", {lanes.w({kColumns})});
  scope.Op("Mul", {lanes.x({4, kColumns}), shared}, {}, "y");
  ASSERT_OK(scope.status());
  const auto together = lanes.Together();
  ASSERT_OK(together);
  EXPECT_THAT(*together, ElementsAreArray(lanes.OneByOne()));
}

// The product's memory would be the shared factor's: the first lane would leave there what the others then read.
TEST(LanesTest, SharedValueWrittenOverByItsLastReader_IsRefused) {
  for (const Shape& shape : {Shape{kColumns}, Shape{1, kColumns}, Shape{}}) {
    Lanes lanes;
    const Scope scope(lanes.graph);
    const Output shared = scope.Op("Tanh", {lanes.w(shape)});
    const Output product = scope.Op("Mul", {shared, lanes.x(shape)});
    scope.Op("Exp", {product}, {}, "y");
    ASSERT_OK(scope.status());
    EXPECT_THAT(lanes.Together().status(), StatusIs(absl::StatusCode::kUnimplemented)) << shape.ToString();
  }
}

}  // namespace
}  // namespace rivulet::testing
