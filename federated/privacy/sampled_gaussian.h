// Renyi divergences of Gaussian noise with sampling, per order. All take the standard deviation over the sensitivity of
// the relation in use (`noise`); under replacement the caller halves it first.
#pragma once

#include <cstdint>

namespace rivulet::privacy {

// Of order `order` > 1, between the outcomes with and without one member who takes part with probability `rate`
// (Poisson sampling; add-remove, the larger of the two directions: Mironov, Talwar, Zhang 2019). Exact at whole orders.
// Between them an upper bound, the same as Google's dp-accounting has: the series of that paper with all terms taken as
// positive, or, where these do not converge, (order - 1) * divergence taken as linear. Infinite where noise is 0.
double SampledGaussianRenyi(double noise, double rate, double order);

// An upper bound for a uniform subset that is the share `rate` of all members, under replace-one: Wang, Balle,
// Kasiviswanathan 2019, theorem 27 for the Gaussian, and linear in (order - 1) * divergence between whole orders.
double FixedSizeGaussianRenyi(double noise, double rate, double order);

// (order - 1) * SampledGaussianRenyi at whole orders, linear between them. The sampled *discrete* Gaussian on integers
// has this divergence as an upper bound, in any dimension: at whole orders its moments are those of the continuous one
// (the shift is a vector of integers, so the sums over the shifted lattice are equal), the reflection about half of the
// shift swaps both laws as Mironov, Talwar and Zhang need it, and the logarithm of a moment is convex in the order.
double SampledDiscreteGaussianRenyi(double noise, double rate, double order);

}  // namespace rivulet::privacy
