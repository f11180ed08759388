// Rivulet's trigonometric functions compared with the C library's in long double.
#include "engine/base/trigonometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/base/philox.h"

namespace rivulet::math {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Function {
  const char* name;
  double (*own)(double);
  long double (*exact)(long double);
  double low, high;
  bool all_magnitudes;  // spread evenly over exponents, both signs
};

class Trigonometry : public ::testing::TestWithParam<Function> {};

TEST_P(Trigonometry, IsWithinFourUnitsInTheLastPlace) {
  const Function& f = GetParam();
  double worst = 0, at = 0;
  for (uint32_t i = 0; i < 50000; ++i) {
    const PhiloxBlock block = Philox4x32(PhiloxKey{{1, 2}}, {i, 0, 0, 0});
    const double u = (static_cast<double>(block[0]) + static_cast<double>(block[1]) * 0x1p-32) * 0x1p-32;
    double x = f.low + (f.high - f.low) * u;
    if (f.all_magnitudes) x = std::exp(std::log(f.low) + std::log(f.high / f.low) * u) * (block[2] & 1 ? 1 : -1);
    const auto exact = static_cast<double>(f.exact(static_cast<long double>(x)));
    const double unit = std::nextafter(std::abs(exact), kInf) - std::abs(exact);
    const double error = std::abs(f.own(x) - exact) / unit;
    if (!(error <= worst)) {
      worst = error;
      at = x;
    }
  }
  EXPECT_LE(worst, 4) << "at " << at;
}

INSTANTIATE_TEST_SUITE_P(
    Functions, Trigonometry,
    ::testing::Values(Function{"Sin", Sin, sinl, -10, 10, false}, Function{"SinLarge", Sin, sinl, 1e-8, 1e18, true},
                      Function{"Cos", Cos, cosl, -10, 10, false}, Function{"CosLarge", Cos, cosl, 1e-8, 1e18, true},
                      Function{"Tan", Tan, tanl, -10, 10, false}, Function{"Asin", Asin, asinl, -1, 1, false},
                      Function{"Acos", Acos, acosl, -1, 1, false}, Function{"Atan", Atan, atanl, 1e-8, 1e8, true},
                      Function{"Sinh", Sinh, sinhl, 1e-8, 700, true}, Function{"Cosh", Cosh, coshl, -700, 700, false},
                      Function{"Asinh", Asinh, asinhl, 1e-8, 1e200, true},
                      Function{"Acosh", Acosh, acoshl, 1, 50, false}, Function{"Atanh", Atanh, atanhl, -1, 1, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Sin, HugeAngles_AreReducedExactly) {
  EXPECT_DOUBLE_EQ(Sin(1e22), -0.85220084976718879);
  EXPECT_DOUBLE_EQ(Cos(1e22), 0.52321478539513899);
  EXPECT_DOUBLE_EQ(Sin(1.7e308), -0.59525608486320769);
  EXPECT_DOUBLE_EQ(Cos(-3e100), -0.041853821196986149);
  EXPECT_TRUE(std::isnan(Sin(kInf)) && std::isnan(Cos(-kInf)) && std::isnan(Tan(kInf)));
}

TEST(Atan2, EveryQuadrantAndEdge_IsTheCLibrarys) {
  for (const double y : {0.0, -0.0, 1.0, -2.0, kInf, -kInf})
    for (const double x : {0.0, -0.0, 3.0, -3.0, kInf, -kInf}) {
      EXPECT_DOUBLE_EQ(Atan2(y, x), std::atan2(y, x)) << y << ", " << x;
      EXPECT_EQ(std::signbit(Atan2(y, x)), std::signbit(std::atan2(y, x))) << y << ", " << x;
    }
}

TEST(InverseFunctions, OutsideTheirRange_AreNaN) {
  EXPECT_TRUE(std::isnan(Asin(1.1)) && std::isnan(Acos(-1.1)) && std::isnan(Acosh(0.9)) && std::isnan(Atanh(1.1)));
  EXPECT_EQ(Atanh(-1), -kInf);
  EXPECT_DOUBLE_EQ(Acos(-1), std::acos(-1.0));
}

TEST(Lgamma, BothSidesOfZero_AreTheCLibrarys) {
  for (double x = -7.993; x < 60; x += 0.0137)
    EXPECT_NEAR(Lgamma(x), std::lgamma(x), 3e-14 * std::max(1.0, std::abs(std::lgamma(x)))) << x;
  EXPECT_EQ(Lgamma(0), kInf);
  EXPECT_EQ(Lgamma(-3), kInf);
  EXPECT_EQ(Lgamma(kInf), kInf);
}

}  // namespace
}  // namespace rivulet::math
