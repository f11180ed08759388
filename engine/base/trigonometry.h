// Trigonometric and hyperbolic functions, their inverses, and the logarithm of the gamma function, in double. They use
// additions, multiplications, divisions and square roots alone, so that different machines and versions of the C
// library give the same bits. Results are within 4 units in the last place (Lgamma: within 3e-14, of 1 or of its
// value).
#pragma once

namespace rivulet::math {

double Sin(double x);
double Cos(double x);
double Tan(double x);
double Asin(double x);
double Acos(double x);
double Atan(double x);
double Atan2(double y, double x);
double Sinh(double x);
double Cosh(double x);
double Asinh(double x);
double Acosh(double x);
double Atanh(double x);
double Lgamma(double x);

}  // namespace rivulet::math
