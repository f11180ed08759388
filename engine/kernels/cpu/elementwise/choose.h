// Choice of the algorithm for elementwise kernels that have several. Vector loops choose by their instruction set
// alone. The table in README.md lists the algorithms.
#pragma once

#include <cstdint>

#include "engine/program/kernel.h"

namespace rivulet {

enum class PowerAlgorithm {
  kLibrary,   // the C library's, with results that differ between machines
  kPortable,  // power.h
};
PowerAlgorithm ChoosePower(const KernelPolicy& policy);

enum class GeluAlgorithm {
  kFormula,  // by erf or tanh, with the same bits on every CPU
  kPieces,   // piecewise polynomials, fused
};
GeluAlgorithm ChooseGelu(const KernelPolicy& policy);

// Sums of a matrix's rows, for a bias's gradient; both have the same bits.
enum class SumsOfRows {
  kDownColumns,  // the sums of some columns in registers
  kAlongRows,    // eight rows at a time, the sums in the nearest cache
};
SumsOfRows ChooseSumsOfRows(int64_t rows, int64_t row_bytes);

}  // namespace rivulet
