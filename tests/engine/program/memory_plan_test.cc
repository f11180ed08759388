#include "engine/program/memory_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

TEST(PlanOffsets, LivesThatDoNotMeet_ShareBytes) {
  std::vector<Lifetime> lives = {{100, 0, 1}, {100, 2, 3}, {100, 1, 2}};
  EXPECT_EQ(PlanOffsets(lives), 256u);
  EXPECT_EQ(lives[0].offset, lives[1].offset);
  EXPECT_NE(lives[0].offset, lives[2].offset);
}

TEST(PlanOffsets, EmptyTensor_StillHasAPlace) {
  std::vector<Lifetime> lives = {{0, 0, 1}, {0, 0, 1}};
  EXPECT_EQ(PlanOffsets(lives), 128u);
}

TEST(PlanOffsets, RandomLives_NeverCollide) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives(60);
    for (Lifetime& life : lives) {
      life.bytes = random() % 5000;
      life.first = static_cast<int>(random() % 40);
      life.last = life.first + static_cast<int>(random() % 10);
    }
    const size_t arena = PlanOffsets(lives);
    size_t most = 0;
    for (int position = 0; position < 50; ++position) {
      size_t live = 0;
      for (const Lifetime& life : lives) {
        if (life.first <= position && position <= life.last) live += std::max<size_t>(64, RoundUp64(life.bytes));
      }
      most = std::max(most, live);
    }
    EXPECT_GE(arena, most);
    EXPECT_LE(arena, most * 3 / 2) << "the plan wastes more than half of what lives at once";
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(lives[i].offset % 64, 0u);
      EXPECT_LE(lives[i].offset + lives[i].bytes, arena);
      for (size_t j = 0; j < i; ++j) {
        const Lifetime &a = lives[i], &b = lives[j];
        const bool meet = a.first <= b.last && b.first <= a.last;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(meet && overlap);
      }
    }
  }
}

Graph Chain(const char* op, int length) {
  Graph graph;
  Scope scope(graph);
  Output x = scope.Placeholder("x", DType::kFloat32, Shape{1000});
  for (int i = 0; i < length; ++i) x = scope.Op(op, {x}, {}, i + 1 == length ? "y" : "");
  EXPECT_OK(scope.status());
  return graph;
}

TEST(MemoryPlan, ChainOfInPlaceOps_NeedsOneTensor) {
  const Graph graph = Chain("Square", 20);
  Signature s;
  s.feeds = {{"x", F32({1000})}};
  s.fetches = {"y"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->memory().arena_bytes, 4032u);
  EXPECT_EQ((*runner)->program->memory().unshared_bytes, 20u * 4032u);
  Tensor x(DType::kFloat32, {1000});
  x.flat<float>()[999] = -1;
  ASSERT_OK((*runner)->Run({x}));
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[999], 1);
  EXPECT_EQ(x.flat<float>()[999], -1) << "a feed is never worked on in place";
}

TEST(MemoryPlan, ValueUsedLater_IsNotOverwritten) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Op("Neg", {scope.Placeholder("x", DType::kFloat32, Shape{3})});
  const Output y = scope.Op("Exp", {x});
  scope.Op("AddV2", {x, y}, {}, "sum");
  Signature s;
  s.feeds = {{"x", F32({3})}};
  s.fetches = {"sum"};
  auto runner = Runner::Create(graph, s);
  ASSERT_OK(runner);
  ASSERT_OK((*runner)->Run({Tensor(DType::kFloat32, {3})}));
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], 1);
}

}  // namespace
}  // namespace rivulet::testing
