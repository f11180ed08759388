// Bias correction, shared by Adam and its relatives.
#pragma once

#include "engine/optimizers/kind.h"

namespace rivulet {

// TensorFlow's op corrects the bias by its beta powers, of its own type: in float32, 1 − 0.999 has lost two digits and
// more. So the correction is made here in float64, and the op gets powers that correct nothing. Epsilon is that of the
// paper's algorithm, behind the correction, where the op's stands before it.
struct BiasCorrection {
  explicit BiasCorrection(const UpdateScope& scope);

  Output first, second;  // float64: 1 − beta1^t, √(1 − beta2^t)
  Output rate, epsilon;  // of the op
};

// The inputs beta1_power, beta2_power, beta1 and beta2 of an op whose bias is corrected.
struct BetaInputs {
  explicit BetaInputs(const UpdateScope& scope);

  Output beta1, beta2, no_power;
};

}  // namespace rivulet
