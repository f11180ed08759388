// Gradients of matrix factorisations, in the formulas of TensorFlow. Where eigenvalues or singular values coincide, the
// vectors are free to turn, and a gradient that reaches them has no meaning; that of the values alone has.
#pragma once

#include "engine/gradients/gradients.h"

namespace rivulet {

Status CholeskyGradient(GradientContext& g);
// UNIMPLEMENTED: unknown sizes of the matrix, or more rows than columns with full_matrices.
Status QrGradient(GradientContext& g);
Status EighGradient(GradientContext& g);
// UNIMPLEMENTED: unknown sizes of the matrix, or full_matrices with sizes that differ by more than one.
Status SvdGradient(GradientContext& g);

}  // namespace rivulet
