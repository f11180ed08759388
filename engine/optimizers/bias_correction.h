// Bias correction, shared by Adam and related optimisers.
#pragma once

#include "engine/optimizers/kind.h"

namespace rivulet {

// TensorFlow's op corrects the bias with beta powers of its own type: in float32, 1 − 0.999 loses two digits or more.
// So the correction happens here in float64, and the op gets powers that correct nothing. As in the paper's algorithm,
// epsilon is added after the correction; the op alone adds it before.
struct BiasCorrection {
  explicit BiasCorrection(const UpdateScope& scope);

  Output first, second;  // float64: 1 − beta1^t, √(1 − beta2^t)
  Output rate, epsilon;  // inputs of the op
};

// The inputs beta1_power, beta2_power, beta1 and beta2 of an op after the bias correction.
struct BetaInputs {
  explicit BetaInputs(const UpdateScope& scope);

  Output beta1, beta2, no_power;
};

}  // namespace rivulet
