// Gradients of matrix factorisations, with TensorFlow's formulas. If eigenvalues or singular values coincide, their
// vectors are not unique: gradients through the vectors are then meaningless, those through the values are not.
#pragma once

#include "engine/gradients/gradients.h"

namespace rivulet {

Status CholeskyGradient(GradientContext& g);
// UNIMPLEMENTED: unknown matrix sizes, or more rows than columns with full_matrices.
Status QrGradient(GradientContext& g);
Status EighGradient(GradientContext& g);
// UNIMPLEMENTED: unknown matrix sizes, or full_matrices with sizes that differ by more than one.
Status SvdGradient(GradientContext& g);

}  // namespace rivulet
