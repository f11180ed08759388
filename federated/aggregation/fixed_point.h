// The arithmetic that makes a fold independent of order: weight × value, exact in double, rounded once (to nearest,
// ties to even) to a multiple of 2^-s, and added in integers. Dispatched at run time to the widest vectors of the CPU;
// every target gives the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "federated/aggregation/update.h"
#include "federated/codecs/sparse_run.h"

namespace rivulet {

// What a pass over one part carries from run to run.
struct FoldState {
  int64_t wire_index = 0;  // of the next value
  // Sums of squares; a value counts into lane (wire index mod 8), so that their bits do not depend on where runs begin.
  std::array<double, 8> squares{};
  int64_t nonzeros = 0;
  int64_t lost = 0;     // non-zero values that contributed 0
  double Norm() const;  // √(((s0+s1)+(s2+s3)) + ((s4+s5)+(s6+s7)))
};

// Checks, measures and folds in one pass, which reads 4 bytes (8 of a difference) and updates 8 a value:
// sums[i] += round(value × scale) for the values of `run`, up to the first that is NaN, infinite or beyond
// ±2^value_bits. Returns how many were taken, run.count when all were good; `state` is of those. scale = weight × 2^s,
// and scale × 2^value_bits ≤ 2^62. `sums`, of 64 or 32 bits with wrap-around, are those of the run.
int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state);
int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state);
// Takes away again what the first `count` values of a run, which AddToSums has taken, added to `sums`: to the bit,
// since the same values give the same integers.
void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int64_t> sums);
void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int32_t> sums);

// As AddToSums, of values that have places of their own: sums[index] += round(value × scale), up to the first value
// that is bad; all others are zeros, which add nothing and are no good or bad. `sums` are those of the whole part, and
// `state` comes to what a run of all its values would make of it, to the bit: a lane goes by a value's place, and a
// zero's square moves none. Returns how many of run.count were taken. Costs what is sent, whatever the part's size.
int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state);
int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state);
// Takes away again what the first `count` of them added.
void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int64_t> sums);
void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int32_t> sums);

// Adds the squares of a run's values, before its factor, to `state`: to the bit, those that AddToSums of a run without
// factor adds. Nothing else of `state` changes but its wire index. The values go to `copy`, unless it is null.
void AddSquares(const FloatRun& run, FoldState& state, float* copy = nullptr);

// The index in `run` of the first value that is NaN, infinite or beyond ±2^value_bits; run.count when there is none.
int64_t FirstBad(const FloatRun& run, int value_bits);
// Likewise of those that are sent: which of run.count.
int64_t FirstBad(const SparseRun& run, int value_bits);
// The value at `index` of a run.
float ValueOf(const FloatRun& run, int64_t index);

// means[i] = float(double(sums[i]) / denominator).
void DivideSums(std::span<const int64_t> sums, double denominator, std::span<float> means);
void DivideSums(std::span<const int32_t> sums, double denominator, std::span<float> means);

}  // namespace rivulet
