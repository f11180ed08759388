// Values where they lie in memory.
#pragma once

#include <cstdint>

namespace rivulet {

// `count` values of wire order in one stretch of memory, of any alignment: values[i], or values[i] − minus[i] rounded
// once to float32. A difference is taken on the thread that trained, whose floating-point modes the plan's own
// subtraction would have had.
struct FloatRun {
  const float* values = nullptr;
  const float* minus = nullptr;  // null: the values themselves
  int64_t count = 0;
};

}  // namespace rivulet
