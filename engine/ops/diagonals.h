// A band of diagonals of a matrix, as in TensorFlow's third versions of the MatrixDiag ops. Diagonal d begins in row 0
// and column d if d > 0, and in row -d and column 0 otherwise. Shared by shape functions and kernels.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

struct DiagonalBand {
  int64_t lower = 0, upper = 0;   // diagonals lower to upper, both included
  int64_t rows = 0, columns = 0;  // sizes of the matrix

  // Makes a band from `k`: one diagonal, or the first and the last. INVALID_ARGUMENT: a wrong number of entries, an
  // empty band, or a diagonal that is impossible for any tensor.
  static StatusOr<DiagonalBand> Of(std::span<const int64_t> k) {
    if (k.size() != 1 && k.size() != 2) return InvalidArgument("k must be one or two integers, not {}", k.size());
    DiagonalBand band;
    band.lower = k.front();
    band.upper = k.back();
    constexpr int64_t kLimit = int64_t{1} << 40;
    if (band.lower > band.upper || band.lower < -kLimit || band.upper > kLimit)
      return InvalidArgument("the diagonals {} to {} are no band of a matrix", band.lower, band.upper);
    return band;
  }
  // Checks the band. INVALID_ARGUMENT: a diagonal outside the matrix.
  Status Check() const {
    const auto inside = [&](int64_t d) { return d == 0 || (d > -rows && d < columns); };
    if (inside(lower) && inside(upper)) return absl::OkStatus();
    return InvalidArgument("the diagonals {} to {} are not all inside a matrix of {}x{}", lower, upper, rows, columns);
  }

  int64_t count() const { return upper - lower + 1; }
  int64_t Length(int64_t d) const {
    return std::max<int64_t>(0, std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0)));
  }
  int64_t LongestLength() const {
    return std::max<int64_t>(0, std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0)));
  }
  // Returns the start of diagonal d within a row of LongestLength elements. With `align` 'RIGHT_LEFT', diagonals above
  // the main diagonal are aligned to the right and those below to the left.
  int64_t Offset(int64_t d, std::string_view align) const {
    const bool above_left = align.starts_with("LEFT"), below_left = align.ends_with("LEFT");
    const bool left = (d >= 0 && above_left) || (d <= 0 && below_left);
    return left ? 0 : LongestLength() - Length(d);
  }
};

}  // namespace rivulet
