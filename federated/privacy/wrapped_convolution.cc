#include "federated/privacy/wrapped_convolution.h"

#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/FFT>
#include <utility>

namespace rivulet::privacy {
namespace {

// e^(further * loss) times the masses, summed, with the largest exponent taken out.
double LogWeightedSum(const std::vector<double>& masses, int64_t first, double step, double tilt) {
  const double end = static_cast<double>(first + (tilt > 0 ? static_cast<int64_t>(masses.size()) - 1 : 0)) * step;
  double sum = 0;
  for (size_t i = 0; i < masses.size(); ++i) {
    if (masses[i] > 0) {
      const double loss = static_cast<double>(first + static_cast<int64_t>(i)) * step;
      sum += masses[i] * std::exp(tilt * (loss - end));
    }
  }
  return tilt * end + std::log(sum);
}

std::complex<double> Power(std::complex<double> base, int64_t exponent) {
  std::complex<double> result = 1;
  // By parts: multiplying std::complex checks for infinities, which cannot be here.
  const auto times = [](const std::complex<double>& a, const std::complex<double>& b) {
    return std::complex<double>(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  };
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = times(result, base);
    base = times(base, base);
  }
  return result;
}

}  // namespace

WrappedConvolution::WrappedConvolution(int64_t size, double step, int64_t first, double tilt)
    : size_(size), first_(first), step_(step), tilt_(tilt) {}

void WrappedConvolution::Add(const LossGrid& grid, int64_t count) {
  const double log = LogWeightedSum(grid.mass, grid.first, step_, tilt_);
  Factor factor{.masses = std::vector<double>(grid.mass.size()), .first = grid.first, .count = count};
  for (size_t i = 0; i < grid.mass.size(); ++i) {
    factor.masses[i] = grid.mass[i] > 0 ? grid.mass[i] * std::exp(tilt_ * grid.Loss(i) - log) : 0;
  }
  log_moment_ += static_cast<double>(count) * log;
  factors_.push_back(std::move(factor));
}

double WrappedConvolution::MassBeyond(double edge, double further) const {
  double log = -further * edge;
  for (const Factor& factor : factors_) {
    log += static_cast<double>(factor.count) * LogWeightedSum(factor.masses, factor.first, step_, further);
  }
  return std::min(1.0, std::exp(log));
}

std::vector<double> WrappedConvolution::Masses() && {
  const auto size = static_cast<size_t>(size_);
  Eigen::FFT<double> transform;
  transform.SetFlag(Eigen::FFT<double>::HalfSpectrum);
  std::vector<std::complex<double>> product, spectrum;
  std::vector<double> wrapped;
  for (const Factor& factor : factors_) {
    wrapped.assign(size, 0);
    for (size_t i = 0; i < factor.masses.size(); ++i) {
      // A power of two: the remainder of a negative number too.
      const auto at = static_cast<uint64_t>(factor.first + static_cast<int64_t>(i)) & static_cast<uint64_t>(size_ - 1);
      wrapped[at] += factor.masses[i];
    }
    transform.fwd(spectrum, wrapped);
    if (product.empty()) product.assign(spectrum.size(), 1);
    for (size_t i = 0; i < spectrum.size(); ++i) {
      const std::complex<double> power = Power(spectrum[i], factor.count), was = product[i];
      product[i] = {was.real() * power.real() - was.imag() * power.imag(),
                    was.real() * power.imag() + was.imag() * power.real()};
    }
  }
  transform.inv(wrapped, product, size_);
  std::vector<double> masses(size);
  for (size_t i = 0; i < size; ++i) {
    masses[i] = wrapped[static_cast<uint64_t>(first_ + static_cast<int64_t>(i)) & static_cast<uint64_t>(size_ - 1)];
  }
  return masses;
}

}  // namespace rivulet::privacy
