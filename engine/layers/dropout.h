// Dropout, composed of other ops (Srivastava et al., "Dropout: a simple way to prevent neural networks from
// overfitting", JMLR 15, 2014). It is the inverted form: training scales the kept values up, so that inference needs
// nothing.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

// x with each element zeroed with probability `rate` and the others multiplied by 1 / (1 - rate). The mask is drawn
// anew in each step from the run's random stream. With rate 0 it is x itself. INVALID_ARGUMENT (in the scope's status)
// for a rate outside [0, 1), or an x that is not floating. For training graphs only: an evaluation graph leaves it out.
Output Dropout(const Scope& scope, Output x, float rate);

}  // namespace rivulet
