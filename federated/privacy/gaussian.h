// Exact (epsilon, delta) of Gaussian noise without sampling (Balle and Wang 2018), which is also the curve of
// mu-GDP (Dong, Roth, Su 2019). `mu` is the sensitivity over the standard deviation; n such rounds are one of
// mu * sqrt(n).
#pragma once

namespace rivulet::privacy {

// delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), with its digits where it is small.
// mu >= 0, epsilon >= 0. mu 0: 0; mu infinite: 1.
double GaussianDelta(double mu, double epsilon);

// The least epsilon >= 0 with GaussianDelta(mu, epsilon) <= delta. delta 0: infinite unless mu is 0.
double GaussianEpsilon(double mu, double delta);

// e^(x^2) erfc(x) for any x; infinite below about -26.
double ScaledErfc(double x);
// The normal distribution's cumulative function.
double NormalCdf(double x);

// The mu of the central limit for Poisson-sampled Gaussian noise (Bu, Dong, Long, Su 2020): rate * sqrt(steps *
// (e^(1/multiplier^2) - 1)). An estimate: it can be below the truth.
double CentralLimitMu(double multiplier, double rate, double steps);

}  // namespace rivulet::privacy
