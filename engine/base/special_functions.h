// Special functions in double, computed from additions, multiplications, divisions and this folder's elementary
// functions, so that all machines give the same bits. The relative error is below 1e-12 within the named ranges, except
// where the result itself is tiny.
#pragma once

namespace rivulet::math {

// Bessel functions, the modified ones of the first kind times e^-|x|, by their integrals (trapezoidal rule, whose error
// falls exponentially) and, beyond 50, by their asymptotic series.
double BesselI0e(double x);
double BesselI1e(double x);
double BesselJ0(double x);
double BesselJ1(double x);
double BesselK0(double x);  // NaN below 0, infinite at 0
double BesselK1(double x);

double Dawson(double x);
double ExpIntegral(double x);    // Ei; NaN below 0
double FresnelCosine(double x);  // ∫ cos(π t²/2) from 0 to x
double FresnelSine(double x);
double Spence(double x);  // ∫ log(t) / (1 - t) from 1 to x; NaN below 0

double HurwitzZeta(double x, double q);      // Σ (q + k)^-x; x > 1
double Polygamma(double n, double x);        // n-th derivative of digamma; NaN unless n is 0, 1, 2, …
double GammaP(double a, double x);           // regularised lower incomplete gamma function
double GammaQ(double a, double x);           // 1 - GammaP, exact where that is small
double BetaI(double a, double b, double x);  // regularised incomplete beta function

}  // namespace rivulet::math
