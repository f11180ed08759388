// Numbered list of training.cc's elementwise update rules, shared with the code of each CPU target.
#pragma once

#include <cstddef>

namespace rivulet {

enum class OptimizerRule { kAdagrad, kAdagradV2, kAdadelta, kRmsProp, kCenteredRmsProp, kAdam, kAdamW, kYogi };

// Operands of one update: the variable and its slots, the op's scalars, each in the op's order, and the gradient.
template <typename T>
struct OptimizerStep {
  OptimizerRule rule;
  bool flag;  // update_slots of Adagrad, use_nesterov of Adam
  T* variables[4];
  T scalars[7];
  const T* gradient;
  size_t count;
};

}  // namespace rivulet
