// Zero-concentrated differential privacy (Bun and Steinke 2016): one number rho, which adds up over rounds.
#pragma once

#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

// The rho of the composition: 1 / (2 multiplier^2) a round for Gaussian noise and for the discrete Gaussian, epsilon^2
// / 2 for Laplace noise. INVALID_ARGUMENT: as Check, and for sampled rounds, which it knows no amplification for.
StatusOr<double> ConcentratedRho(const Composition& composition);

// rho + 2 sqrt(rho ln(1 / delta)) (Bun and Steinke 2016, proposition 1.3).
double SimpleEpsilonOfRho(double rho, double delta);
// The least over all orders by proposition 12 of Canonne, Kamath and Steinke 2020; never above the simple one.
double EpsilonOfRho(double rho, double delta);
double DeltaOfRho(double rho, double epsilon);

}  // namespace rivulet::privacy
