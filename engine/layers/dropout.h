// Dropout, composed of other ops (Srivastava et al., "Dropout: a simple way to prevent neural networks from
// overfitting", JMLR 15, 2014). It is the inverted form: training scales the kept values up, so that inference is
// unchanged.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// Returns x with each element zeroed with probability `rate` and the others multiplied by 1 / (1 - rate). Each step
// draws a new mask from the run's random stream. With rate 0 the result is x. INVALID_ARGUMENT (in the scope's status):
// a rate outside [0, 1), or an x that is not floating. Use it in training graphs only; evaluation graphs omit it.
Output Dropout(const Scope& scope, Output x, float rate);

}  // namespace rivulet
