#include "inspect/picture/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

Chart OfTwoPoints() {
  return {.title = "test/loss",
          .x_label = "round",
          .series = {{.label = "fedavg", .points = {{1, 2}, {2, 1}}, .band = {{1, 1.5, 2.5}, {2, 0.5, 1.5}}}}};
}

TEST(ChartPicture_, BandIsAnAreaBetweenItsLeastAndItsGreatest) {
  const Chart chart = OfTwoPoints();
  const Picture picture = ChartPicture(chart);
  const auto area = std::ranges::find(picture.marks, Mark::Kind::kArea, &Mark::kind);
  ASSERT_NE(area, picture.marks.end());
  const ChartFrame frame = FrameOf(chart);
  // The axis runs from the least of the band, 0.5, to its greatest, 2.5.
  const double middle = (frame.top + frame.bottom) / 2;
  EXPECT_THAT(area->points, ::testing::ElementsAre(Pair(frame.left, frame.top), Pair(frame.right, middle),
                                                   Pair(frame.right, frame.bottom), Pair(frame.left, middle)));
}

TEST(ChartPicture_, NumbersBesideTheAxisFitTheirRoom) {
  Chart chart = OfTwoPoints();
  chart.series[0].band.clear();
  chart.series[0].points = {{1, 34'650'000}, {2, 34'630'000}};
  EXPECT_THAT(PictureSvg(ChartPicture(chart), true), HasSubstr(">34.64M</text>"));
}

TEST(ChartPicture_, InAPageItHasNoTitleAndNoLegend) {
  Chart chart = OfTwoPoints();
  EXPECT_THAT(PictureSvg(ChartPicture(chart), true), HasSubstr(">fedavg</text>"));
  chart.in_page = true;
  const std::string svg = PictureSvg(ChartPicture(chart), false);
  EXPECT_THAT(svg, Not(HasSubstr("fedavg")));
  EXPECT_THAT(svg, Not(HasSubstr(">test/loss<")));
  EXPECT_THAT(svg, HasSubstr("class=\"y\""));
}

TEST(PictureSvg_, AloneItHasNoClassesAndNoLinks) {
  Picture picture{.width = 10, .height = 10, .label = "x", .marks = {}};
  Mark& area = picture.Area({{0, 0}, {10, 0}, {10, 10}}, "#0072B2");
  area.part = "y";
  area.link = "/";
  EXPECT_THAT(PictureSvg(picture, true), HasSubstr("<path d=\"M0.0 0.0L10.0 0.0L10.0 10.0Z\" fill=\"#0072B2\""));
  EXPECT_THAT(PictureSvg(picture, true), Not(HasSubstr("class=")));
  EXPECT_THAT(PictureSvg(picture, false), HasSubstr("<a href=\"/\"><path class=\"y\" "));
}

TEST(PicturePng_, AreaCoversWhatLiesWithinItsCorners) {
  Picture half{.width = 20, .height = 20, .label = "", .marks = {}}, rectangle = half, all = half;
  half.Area({{0, 0}, {20, 0}, {20, 10}, {0, 10}}, "#0072B2");
  rectangle.Rectangle(0, 0, 20, 10, "#0072B2");
  all.Rectangle(0, 0, 20, 20, "#0072B2");
  const StatusOr<std::string> one = PicturePng(half, 1), other = PicturePng(rectangle, 1), more = PicturePng(all, 1);
  if (absl::IsUnimplemented(one.status())) GTEST_SKIP() << "built without libpng";
  ASSERT_TRUE(one.ok() && other.ok() && more.ok());
  EXPECT_EQ(*one, *other);
  EXPECT_NE(*one, *more);
}

TEST(Thinned_, KeepsFirstLowestHighestAndLastOfEachStretch) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100; ++i) points.emplace_back(i, i == 40 ? 9 : i == 60 ? -9 : 0);
  EXPECT_THAT(Thinned(points, 1), ::testing::ElementsAre(Pair(0, 0), Pair(40, 9), Pair(60, -9), Pair(99, 0)));
  EXPECT_EQ(Thinned(points, 25), points);
}

}  // namespace
}  // namespace rivulet
