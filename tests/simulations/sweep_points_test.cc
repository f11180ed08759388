// The points of a sweep: products, joint lists, and random draws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulations/sweeps/points.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using testing::StatusIs;

std::vector<SweepPoint> Points(const SweepAxes& axes) {
  const StatusOr<std::vector<SweepPoint>> points = PointsOf(axes);
  EXPECT_OK(points);
  return points.ok() ? *points : std::vector<SweepPoint>();
}

TEST(SweepPoints, NoAxes_OnePointWithoutKeys) {
  EXPECT_THAT(Points({}), ElementsAre(SweepPoint()));
  EXPECT_EQ(PointName({}), "as it is");
}

TEST(SweepPoints, Grid_EveryValueWithEveryOther) {
  const auto points = Points({.grids = {"a.b=1,2", "c=x,y"}, .lists = {}, .randoms = {}});
  EXPECT_THAT(
      points,
      ElementsAre(ElementsAre(Pair("a.b", "1"), Pair("c", "x")), ElementsAre(Pair("a.b", "1"), Pair("c", "y")),
                  ElementsAre(Pair("a.b", "2"), Pair("c", "x")), ElementsAre(Pair("a.b", "2"), Pair("c", "y"))));
  EXPECT_EQ(PointName(points.at(1)), "a.b=1, c=y");
}

TEST(SweepPoints, CommaInABracketOrQuotes_IsPartOfItsValue) {
  EXPECT_THAT(Points({.grids = {R"(k=[1,2],{a="x,y",b=2},"p,q")"}, .lists = {}, .randoms = {}}),
              ElementsAre(ElementsAre(Pair("k", "[1,2]")), ElementsAre(Pair("k", R"({a="x,y",b=2})")),
                          ElementsAre(Pair("k", R"("p,q")"))));
}

TEST(SweepPoints, Lists_GoTogetherAndWithEachOfTheGrid) {
  EXPECT_THAT(Points({.grids = {"g=1,2"}, .lists = {"a=x,y", "b=3,4"}, .randoms = {}}),
              ElementsAre(ElementsAre(Pair("g", "1"), Pair("a", "x"), Pair("b", "3")),
                          ElementsAre(Pair("g", "1"), Pair("a", "y"), Pair("b", "4")),
                          ElementsAre(Pair("g", "2"), Pair("a", "x"), Pair("b", "3")),
                          ElementsAre(Pair("g", "2"), Pair("a", "y"), Pair("b", "4"))));
}

TEST(SweepPoints, Random_InItsRangeTheSameForASeedAndTheFirstOfMore) {
  const SweepAxes three{.grids = {}, .lists = {}, .randoms = {"a=2:3", "b=log:0.001:10"}, .draws = 3, .seed = 7};
  const auto points = Points(three);
  ASSERT_THAT(points, SizeIs(3));
  SweepAxes more = three;
  more.draws = 400;
  const auto many = Points(more);
  ASSERT_THAT(many, SizeIs(400));
  int small = 0;
  for (size_t i = 0; i < many.size(); ++i) {
    const double a = std::stod(many[i][0].second), b = std::stod(many[i][1].second);
    EXPECT_TRUE(a >= 2 && a <= 3) << a;
    EXPECT_TRUE(b >= 0.001 && b <= 10) << b;
    small += b < 0.1 ? 1 : 0;
    if (i < points.size()) {
      EXPECT_EQ(many[i], points[i]);
    }
  }
  // Half of four magnitudes; 400 fair coins are within 5 deviations of 200.
  EXPECT_NEAR(small, 200, 50);
  more.seed = 8;
  EXPECT_NE(Points(more).at(0), many[0]);
}

TEST(SweepPoints, WhatIsNoAxis_IsRefusedByName) {
  for (const auto& [axes, sentence] : std::vector<std::pair<SweepAxes, std::string>>{
           {{.grids = {"epochs"}, .lists = {}, .randoms = {}}, "not 'epochs'"},
           {{.grids = {"=1"}, .lists = {}, .randoms = {}}, "not '=1'"},
           {{.grids = {"a=1,,2"}, .lists = {}, .randoms = {}}, "a value is missing"},
           {{.grids = {"a=1", "a=2"}, .lists = {}, .randoms = {}}, "'a' is on two axes"},
           {{.grids = {}, .lists = {"a=1,2", "b=1"}, .randoms = {}}, "b has 1 where a has 2"},
           {{.grids = {}, .lists = {}, .randoms = {"a=1:2"}}, "given together"},
           {{.grids = {}, .lists = {}, .randoms = {"a=2:1"}, .draws = 1}, "a lower number to a higher"},
           {{.grids = {}, .lists = {}, .randoms = {"a=log:0:1"}, .draws = 1}, "both above 0"},
           {{.grids = {}, .lists = {}, .randoms = {"a=1:x"}, .draws = 1}, "'x' is no number"},
           {{.grids = {}, .lists = {}, .randoms = {"a=1:2"}, .draws = 10'001}, "at most 10000 points"}}) {
    EXPECT_THAT(PointsOf(axes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(sentence)));
  }
}

}  // namespace
}  // namespace rivulet
