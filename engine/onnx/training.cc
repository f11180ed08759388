// The optimisers of ai.onnx.preview.training: R (learning rate), T (steps taken before), then all parameters, all
// gradients and the state, and as outputs the new parameters and the new state.
#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// Tensors that belong to one parameter: input 2 + k · count + i is the k-th thing of parameter i.
StatusOr<int> CountOf(NodeContext& n, int things) {
  const int given = n.num_inputs() - 2;
  if (given <= 0 || given % things != 0)
    return InvalidArgument("has {} inputs, which are not R, T and {} tensors per parameter", n.num_inputs(), things);
  return given / things;
}

// R and T may come as vectors of one element.
Output Scalar(const Builder& b, Output x) { return b.Reshape(x, std::vector<int64_t>{}); }

Output Regularized(const Builder& b, Output gradient, Output parameter, double coefficient) {
  return coefficient == 0 ? gradient : b.Add(gradient, b.Times(parameter, coefficient));
}

Status Adagrad(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int count, CountOf(n, 3));
  const Output rate = Scalar(b, n.input(0)), steps = Scalar(b, n.input(1));
  const Output decayed =
      b.Div(rate, b.Plus(b.Mul(b.Cast(steps, TypeOf(rate)), b.Scalar(TypeOf(rate), n.Float("decay_factor", 0))), 1));
  for (int i = 0; i < count; ++i) {
    const Output x = n.input(2 + i), h = n.input(2 + 2 * count + i);
    const Output g = Regularized(b, n.input(2 + count + i), x, n.Float("norm_coefficient", 0));
    const Output sum = b.Add(h, b.Square(g));
    const Output adaptive = b.Plus(b.Sqrt(sum), n.Float("epsilon", 1e-6));
    n.set_output(i, b.Sub(x, b.Div(b.Mul(b.Cast(decayed, TypeOf(x)), g), adaptive)));
    n.set_output(count + i, sum);
  }
  return n.status();
}
RIVULET_ONNX_IN("ai.onnx.preview.training", "Adagrad", Adagrad);

Status Momentum(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int count, CountOf(n, 3));
  const Output rate = Scalar(b, n.input(0)), steps = Scalar(b, n.input(1));
  const std::string mode = n.String("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return InvalidArgument("mode '{}' is neither standard nor nesterov", mode);
  const double alpha = n.Float("alpha", 0), beta = n.Float("beta", 0);
  const Output first = b.Equal(steps, b.ScalarLike(steps, 0));
  for (int i = 0; i < count; ++i) {
    const Output x = n.input(2 + i), v = n.input(2 + 2 * count + i);
    const Output g = Regularized(b, n.input(2 + count + i), x, n.Float("norm_coefficient", 0));
    // In the first step the gradient is not damped.
    const Output damping = b.Select(first, b.ScalarLike(x, 1), b.ScalarLike(x, beta));
    const Output velocity = b.Add(b.Times(v, alpha), b.Mul(damping, g));
    const Output step = mode == "standard" ? velocity : b.Add(g, b.Times(velocity, alpha));
    n.set_output(i, b.Sub(x, b.Mul(b.Cast(rate, TypeOf(x)), step)));
    n.set_output(count + i, velocity);
  }
  return n.status();
}
RIVULET_ONNX_IN("ai.onnx.preview.training", "Momentum", Momentum);

Status Adam(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int count, CountOf(n, 4));
  const Output rate = Scalar(b, n.input(0)), steps = Scalar(b, n.input(1));
  const double alpha = n.Float("alpha", 0.9), beta = n.Float("beta", 0.999),
               after = n.Float("norm_coefficient_post", 0);
  const DType dtype = TypeOf(rate);
  const Output t = b.Cast(steps, dtype);
  const auto left = [&](double factor) {  // 1 - factor^t
    return b.Sub(b.Scalar(dtype, 1), b.Op("Pow", {b.Scalar(dtype, factor), t}));
  };
  // The bias of the moments is taken out from the second step on.
  const Output corrected = b.Select(b.Op("Greater", {steps, b.ScalarLike(steps, 0)}),
                                    b.Div(b.Mul(rate, b.Sqrt(left(beta))), left(alpha)), rate);
  for (int i = 0; i < count; ++i) {
    const Output x = n.input(2 + i), v = n.input(2 + 2 * count + i), h = n.input(2 + 3 * count + i);
    const Output g = Regularized(b, n.input(2 + count + i), x, n.Float("norm_coefficient", 0));
    const Output first = b.Add(b.Times(v, alpha), b.Times(g, 1 - alpha));
    const Output second = b.Add(b.Times(h, beta), b.Times(b.Square(g), 1 - beta));
    const Output step =
        b.Div(b.Mul(b.Cast(corrected, TypeOf(x)), first), b.Plus(b.Sqrt(second), n.Float("epsilon", 1e-6)));
    const Output moved = b.Sub(x, step);
    n.set_output(i, after == 0 ? moved : b.Times(moved, 1 - after));
    n.set_output(count + i, first);
    n.set_output(2 * count + i, second);
  }
  return n.status();
}
RIVULET_ONNX_IN("ai.onnx.preview.training", "Adam", Adam);

}  // namespace
}  // namespace rivulet::onnx
