// Gradients of ops with one input and one output, written as an expression.
#pragma once

#include "engine/ops/gradient_ops.h"

// Defines a gradient function. The gradient of input x is `expression`, which may use x, output y and its gradient dy.
#define RIVULET_UNARY_GRADIENT(function, expression)                              \
  Status function(GradientContext& g) {                                           \
    GradientOps ops(g);                                                           \
    [[maybe_unused]] const Output dy = g.grad(), x = g.input(0), y = g.output(0); \
    g.set_input_grad(0, expression);                                              \
    return ops.status();                                                          \
  }
