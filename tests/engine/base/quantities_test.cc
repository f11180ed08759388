#include "engine/base/quantities.h"

#include <gtest/gtest.h>

#include <limits>

namespace rivulet {
namespace {

TEST(Quantities, MeasuredValuesHaveAsManyDigitsAsPeopleRead) {
  EXPECT_EQ(MetricText(0.89451), "0.8945");
  EXPECT_EQ(MetricText(0), "0.0000");
  EXPECT_EQ(MetricText(-120.9491), "-120.9491");
  EXPECT_EQ(MetricText(999.99999), "1000.0");
  EXPECT_EQ(MetricText(5859.7998), "5859.8");
  EXPECT_EQ(MetricText(34628488), "3.463e+07");
  EXPECT_EQ(MetricText(0.0000024), "2.4e-06");
  EXPECT_EQ(MetricText(0.00004), "4e-05");
  EXPECT_EQ(MetricText(-1e300), "-1e+300");
  EXPECT_EQ(MetricText(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(MetricText(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Quantities, DurationsAndSizesHaveAUnitThatSuitsThem) {
  EXPECT_EQ(SecondsText(0.0003), "0.3 ms");
  EXPECT_EQ(SecondsText(200), "3 min 20 s");
  EXPECT_EQ(BytesText(812), "812 B");
  EXPECT_EQ(BytesText(31'800), "31.8 kB");
  EXPECT_EQ(PercentText(0.004), "0.4 %");
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(812), "812");
  EXPECT_EQ(CountText(1'663'370), "1,663,370");
  EXPECT_EQ(CountText(-123'456), "-123,456");
}

}  // namespace
}  // namespace rivulet
