// A product of powers of tilted loss grids in a window of the line, by one circular Fourier transform.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "federated/privacy/loss_grid.h"

namespace rivulet::privacy {

// Calls: Add (one for each grid), then log_moment and MassBeyond, then Masses. Not thread-safe. Masses of a grid are
// multiplied by e^(tilt * loss) and divided by their sum, and all that lies outside the window wraps around.
class WrappedConvolution {
 public:
  // The window has `size` multiples of `step`, a power of two of at least 8, from `first` on.
  WrappedConvolution(int64_t size, double step, int64_t first, double tilt);

  // `count` independent losses of the grid, whose step is the window's.
  void Add(const LossGrid& grid, int64_t count);

  // The sum over the rounds of the logarithms of what the tilted masses were divided by.
  double log_moment() const { return log_moment_; }
  // Chernoff's bound of the tilted law's mass beyond `edge`: above it for further > 0, below it for further < 0, by the
  // moment at the tilt `further` more.
  double MassBeyond(double edge, double further) const;

  // The tilted law in the window, in rising order.
  std::vector<double> Masses() &&;

 private:
  struct Factor {
    std::vector<double> masses;  // tilted, divided by their sum
    int64_t first = 0;
    int64_t count = 1;
  };

  const int64_t size_, first_;
  const double step_, tilt_;
  double log_moment_ = 0;
  std::vector<Factor> factors_;
};

}  // namespace rivulet::privacy
