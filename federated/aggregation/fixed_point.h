// The arithmetic that makes sums independent of order. A product weight × value is exact in double; it is rounded once
// (to nearest, ties to even) to a multiple of 2^-s, and added as an integer. Dispatched at run time to the CPU's widest
// vectors; every target gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "federated/aggregation/update.h"
#include "federated/codecs/sparse_run.h"

namespace rivulet {

// State of a pass over one part, kept from run to run.
struct FoldState {
  int64_t wire_index = 0;  // index of the next value
  // Sums of squares; a value counts in lane (wire index mod 8), so that the bits do not depend on where runs begin.
  std::array<double, 8> squares{};
  int64_t nonzeros = 0;
  int64_t lost = 0;     // non-zero values that were rounded to 0
  double Norm() const;  // √(((s0+s1)+(s2+s3)) + ((s4+s5)+(s6+s7)))
};

// Checks, measures and adds in one pass, which reads 4 bytes per value (8 of a difference) and updates 8: sums[i] +=
// round(value × scale) for the values of `run`, up to the first that is NaN, infinite or beyond ±2^value_bits. Returns
// the number of added values, run.count if all are good; `state` covers these. scale = weight × 2^s, and scale ×
// 2^value_bits ≤ 2^62. `sums`, of 64 or 32 bits with wrap-around, are those of the run.
int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state);
int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state);
// Subtracts the first `count` values of a run that AddToSums added to `sums`. The result is exact to the bit, because
// equal values give equal integers.
void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int64_t> sums);
void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int32_t> sums);

// AddToSums for sparse values: sums[index] += round(value × scale), up to the first value that is bad. Values that
// were not sent are zeros; they add nothing and cannot be bad. `sums` are those of the whole part. `state` equals that
// of a dense run of all values to the bit: lanes follow a value's place, and the square of a zero changes none. Returns
// how many of run.count were added. The cost depends on the sent values, not on the part's size.
int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state);
int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state);
// Subtracts the first `count` of these values.
void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int64_t> sums);
void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int32_t> sums);

// Adds the squares of a run's values, before its factor, to `state`, bit by bit as AddToSums of a run without factor.
// Otherwise only `state`'s wire index changes. The values are written to `copy` unless it is null.
void AddSquares(const FloatRun& run, FoldState& state, float* copy = nullptr);

// Index in `run` of the first value that is NaN, infinite or beyond ±2^value_bits; run.count if there is none.
int64_t FirstBad(const FloatRun& run, int value_bits);
// FirstBad for sparse values: an index of 0 .. run.count.
int64_t FirstBad(const SparseRun& run, int value_bits);
// The value at `index` of a run.
float ValueOf(const FloatRun& run, int64_t index);

// means[i] = float(double(sums[i]) / denominator).
void DivideSums(std::span<const int64_t> sums, double denominator, std::span<float> means);
void DivideSums(std::span<const int32_t> sums, double denominator, std::span<float> means);

}  // namespace rivulet
