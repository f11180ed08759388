#include "federated/secure/graph.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace rivulet::secure {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using testing::StatusIs;

Digest ContextOf(int number) { return Sha256Of(std::to_string(number)); }

// The numbers: 500 clients, 50 of them colluding, a tenth dropped.
constexpr GraphNeeds kFiveHundred{.members = 500, .colluding = 50, .dropped = 50};

TEST(ChooseGraph, FiveHundredClients) {
  ASSERT_OK_AND_ASSIGN(const GraphShape shape, ChooseGraph(kFiveHundred));
  EXPECT_EQ(shape, (GraphShape{.neighbours = 118, .threshold = 85, .complete = false}));
}

// By enumeration of what the definition says: no smaller k has a t, and no smaller t will do.
TEST(ChooseGraph, IsTheLeastThatHoldsBothBounds) {
  for (const int64_t members : {200, 500, 1000}) {
    const GraphNeeds needs{.members = members, .colluding = members / 20, .dropped = members / 10};
    ASSERT_OK_AND_ASSIGN(const GraphShape shape, ChooseGraph(needs));
    const auto holds = [&](int k, int t) {
      return Log2ManyColluding(needs, k, 2 * t - k) < -128 && Log2FewStaying(needs, k, t) < -30;
    };
    EXPECT_TRUE(holds(shape.neighbours, shape.threshold));
    for (int k = 2; k <= shape.neighbours; k += 2) {
      for (int t = k / 2; t <= k; ++t) {
        if (k == shape.neighbours && t >= shape.threshold) continue;
        EXPECT_FALSE(holds(k, t)) << members << ": " << k << ", " << t;
      }
    }
  }
}

TEST(ChooseGraph, SmallCohortsAreComplete) {
  for (const auto& [members, colluding] : std::vector<std::pair<int64_t, int64_t>>{{3, 0}, {7, 0}, {50, 14}, {99, 5}}) {
    const GraphNeeds needs{.members = members, .colluding = colluding, .dropped = members / 10};
    ASSERT_OK_AND_ASSIGN(const GraphShape shape, ChooseGraph(needs));
    EXPECT_TRUE(shape.complete);
    EXPECT_EQ(shape.neighbours, members - 1);
    EXPECT_EQ(shape.threshold, 2 * members / 3 + 1);
  }
}

TEST(ChooseGraph, WhatNoGraphBears_IsRefused) {
  EXPECT_THAT(ChooseGraph({.members = 2}), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("3 members or more")));
  EXPECT_THAT(ChooseGraph({.members = 30, .colluding = 12, .dropped = 3}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("a cohort of this size bears 11")));
  EXPECT_THAT(ChooseGraph({.members = 30, .colluding = 8, .dropped = 10}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("a cohort of this size bears 9")));
  EXPECT_THAT(ChooseGraph({.members = 30, .colluding = 30}), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      ChooseGraph({.members = 30, .colluding = 8, .dropped = 3, .least_sum = 14}),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("sums of 13 honest clients, and the plan asks for 14")));
}

// A hundred clients need few neighbours for the first two bounds; a larger least sum needs more.
TEST(ChooseGraph, LeastSumRaisesK) {
  GraphNeeds needs{.members = 100, .colluding = 10, .dropped = 10};
  ASSERT_OK_AND_ASSIGN(const GraphShape without, ChooseGraph(needs));
  needs.least_sum = SmallestHonestSum(needs, without) + 10;
  ASSERT_OK_AND_ASSIGN(const GraphShape with, ChooseGraph(needs));
  EXPECT_GT(with.neighbours, without.neighbours);
  EXPECT_GE(SmallestHonestSum(needs, with), needs.least_sum);
}

TEST(SmallestHonestSum, CompleteGraph_IsTheThresholdWithoutTheColluding) {
  EXPECT_EQ(SmallestHonestSum({.members = 30, .colluding = 5}, {.neighbours = 29, .threshold = 21, .complete = true}),
            16);
}

TEST(SmallestHonestSum, FiveHundredClients) {
  ASSERT_OK_AND_ASSIGN(const GraphShape shape, ChooseGraph(kFiveHundred));
  const int64_t alpha = SmallestHonestSum(kFiveHundred, shape);
  EXPECT_GT(alpha, 250);
  EXPECT_LT(alpha, 450);
  GraphShape stricter = shape;
  stricter.threshold += 5;
  EXPECT_GT(SmallestHonestSum(kFiveHundred, stricter), alpha) << "a higher threshold protects a larger sum";
}

TEST(NeighbourGraph, EveryMemberHasKDifferentNeighboursBothWays) {
  for (const auto& [members, k] :
       std::vector<std::pair<int64_t, int>>{{5, 2}, {9, 4}, {13, 6}, {31, 14}, {60, 28}, {500, 118}, {1000, 64}}) {
    for (int context = 0; context < 5; ++context) {
      ASSERT_OK_AND_ASSIGN(const auto graph, NeighbourGraph::Create(ContextOf(context), members, {k, k, false}));
      for (uint32_t member = 0; member < members; ++member) {
        const std::vector<uint32_t> neighbours = graph->NeighboursOf(member);
        const std::set<uint32_t> distinct(neighbours.begin(), neighbours.end());
        ASSERT_EQ(distinct.size(), static_cast<size_t>(k)) << members;
        ASSERT_TRUE(std::is_sorted(neighbours.begin(), neighbours.end()));
        ASSERT_FALSE(distinct.contains(member));
        for (const uint32_t other : neighbours) {
          const std::vector<uint32_t> back = graph->NeighboursOf(other);
          ASSERT_TRUE(std::binary_search(back.begin(), back.end(), member));
        }
        ASSERT_EQ(graph->HoldersOf(member), neighbours);
      }
    }
  }
}

TEST(NeighbourGraph, FollowsFromTheContextAlone) {
  const GraphShape shape{.neighbours = 20, .threshold = 15};
  ASSERT_OK_AND_ASSIGN(const auto graph, NeighbourGraph::Create(ContextOf(1), 100, shape));
  ASSERT_OK_AND_ASSIGN(const auto again, NeighbourGraph::Create(ContextOf(1), 100, shape));
  ASSERT_OK_AND_ASSIGN(const auto shared, NeighbourGraph::Shared(ContextOf(1), 100, shape));
  ASSERT_OK_AND_ASSIGN(const auto other, NeighbourGraph::Shared(ContextOf(2), 100, shape));
  int equal = 0;
  for (uint32_t member = 0; member < 100; ++member) {
    EXPECT_EQ(graph->NeighboursOf(member), again->NeighboursOf(member));
    EXPECT_EQ(graph->NeighboursOf(member), shared->NeighboursOf(member));
    equal += graph->NeighboursOf(member) == other->NeighboursOf(member) ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

// Of scripts/secagg_graphs.py, which draws graphs from the documentation alone: SHA-256 of all edges as lines "3-17".
TEST(NeighbourGraph, IsThatOfThePythonScript) {
  const auto digest_of = [](int64_t members, int k) {
    const auto graph = NeighbourGraph::Create(ContextOf(1), members, {k, k, false}).value();
    std::string text;
    for (uint32_t member = 0; member < members; ++member) {
      for (const uint32_t other : graph->NeighboursOf(member))
        if (member < other) text += fmt::format("{}-{}\n", member, other);
    }
    return Sha256Of(text).Hex();
  };
  EXPECT_EQ(digest_of(31, 14), "03b7c4f4f94cd071deff193a822683492a62cc9e8541dfe8416c9a08c6ec266d");
  EXPECT_EQ(digest_of(200, 60), "402f52fb9306b5191babc4a6e0ca0c1a85616b04b0dc3b5cd25d81af36446ff6");
}

TEST(NeighbourGraph, InACompleteGraphEachHoldsItsOwnShare) {
  ASSERT_OK_AND_ASSIGN(const auto graph, NeighbourGraph::Create(ContextOf(1), 4, {3, 3, true}));
  EXPECT_EQ(graph->NeighboursOf(2), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(graph->HoldersOf(2), (std::vector<uint32_t>{0, 1, 2, 3}));
}

// Forty graphs here; scripts/secagg_graphs.py states the thousand.
TEST(NeighbourGraph, SecondEigenvalueIsThatOfARandomRegularGraph) {
  double largest = 0;
  for (int context = 0; context < 40; ++context) {
    ASSERT_OK_AND_ASSIGN(const auto graph, NeighbourGraph::Create(ContextOf(context), 500, {106, 74, false}));
    largest = std::max(largest, graph->SecondEigenvalue());
  }
  EXPECT_GT(largest, 17);
  EXPECT_LT(largest, 21) << "2√(k - 1) is 20.5";
}

}  // namespace
}  // namespace rivulet::secure
