#include "engine/onnx/cell.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace rivulet::onnx {
namespace {

struct Known {
  double alpha, beta;
  const char* ours;  // name in the engine's recurrent ops, with these numbers
};
const std::map<std::string, Known>& Activations() {
  static const std::map<std::string, Known> activations = {
      {"relu", {0, 0, "relu"}},
      {"tanh", {0, 0, "tanh"}},
      {"sigmoid", {0, 0, "sigmoid"}},
      {"affine", {1, 0, "linear"}},
      {"leakyrelu", {0.01, 0, "leaky_relu"}},
      {"thresholdedrelu", {1, 0, nullptr}},
      {"scaledtanh", {1, 1, "tanh"}},
      {"hardsigmoid", {0.2, 0.5, "hard_sigmoid"}},
      {"elu", {1, 0, "elu"}},
      {"softsign", {0, 0, "softsign"}},
      {"softplus", {0, 0, "softplus"}},
  };
  return activations;
}

const char* Ours(const Activation& activation) {
  const Known& known = Activations().at(activation.name);
  const bool same = static_cast<float>(activation.alpha) == static_cast<float>(known.alpha) &&
                    static_cast<float>(activation.beta) == static_cast<float>(known.beta);
  return same ? known.ours : nullptr;
}

Output Apply(const Builder& b, const Activation& f, Output x) {
  if (f.name == "relu") return b.Op("Relu", {x});
  if (f.name == "tanh") return b.Op("Tanh", {x});
  if (f.name == "sigmoid") return b.Op("Sigmoid", {x});
  if (f.name == "softplus") return b.Op("Softplus", {x});
  if (f.name == "affine") return b.Plus(b.Times(x, f.alpha), f.beta);
  if (f.name == "scaledtanh") return b.Times(b.Op("Tanh", {b.Times(x, f.beta)}), f.alpha);
  if (f.name == "softsign") return b.Div(x, b.Plus(b.Op("Abs", {x}), 1));
  const Output zero = b.ScalarLike(x, 0);
  if (f.name == "hardsigmoid")
    return b.Minimum(b.Maximum(b.Plus(b.Times(x, f.alpha), f.beta), zero), b.ScalarLike(x, 1));
  if (f.name == "thresholdedrelu") return b.Select(b.Op("Greater", {x, b.ScalarLike(x, f.alpha)}), x, zero);
  const Output positive = b.Op("Greater", {x, zero});
  if (f.name == "leakyrelu") return b.Select(positive, x, b.Times(x, f.alpha));
  return b.Select(positive, x, b.Times(b.Plus(b.Exp(b.Minimum(x, zero)), -1), f.alpha));  // elu
}

// x · kernelᵀ + bias for all steps at once, laid out as x.
Output Projection(const Builder& b, const CellInputs& in, Output bias) {
  const Output rows = b.Shaped(in.x, {b.Int(-1), b.Dim(in.x, 2)});
  Output all = b.Op("MatMul", {rows, in.kernel}, {{"transpose_b", true}});
  if (bias) all = b.Op("BiasAdd", {all, bias});
  return b.Shaped(all, {b.Dim(in.x, 0), b.Dim(in.x, 1), b.Int(-1)});
}

Output Sum(const Builder& b, Output x, Output y) { return x && y ? b.Add(x, y) : x ? x : y; }

CellOutputs WholeSequence(const Builder& b, const Cell& cell, const CellInputs& in) {
  const DType dtype = TypeOf(in.x);
  const auto given = [&](Output x) { return x ? x : b.Const(Tensor(dtype, Shape{0})); };
  const Output lengths = in.lengths ? in.lengths : b.Const(Tensor(DType::kInt32, Shape{0}));
  const Output kernel = b.Transpose(in.recurrent_kernel, {1, 0});
  AttrMap attrs = {{"time_major", cell.time_major}, {"reverse", cell.reverse}, {"clip", static_cast<float>(cell.clip)}};
  const auto name = [&](size_t i) { return std::string(Ours(cell.activations[i])); };
  if (cell.kind == Cell::Kind::kRnn) {
    attrs["activation"] = name(0);
    const Output projection = Projection(b, in, Sum(b, in.bias, in.recurrent_bias));
    const auto all = b.All("SimpleRNN", {projection, kernel, given(in.initial_h), lengths}, attrs);
    return all.size() < 2 ? CellOutputs{} : CellOutputs{all[0], all[1], {}};
  }
  attrs["recurrent_activation"] = name(0);
  attrs["activation"] = name(1);
  if (cell.kind == Cell::Kind::kGru) {
    attrs["reset_after"] = cell.reset_after;
    const auto all = b.All(
        "GRU", {Projection(b, in, in.bias), kernel, given(in.recurrent_bias), given(in.initial_h), lengths}, attrs);
    return all.size() < 2 ? CellOutputs{} : CellOutputs{all[0], all[1], {}};
  }
  attrs["output_activation"] = name(2);
  const auto all = b.All("LSTM",
                         {Projection(b, in, Sum(b, in.bias, in.recurrent_bias)), kernel, given(in.initial_h),
                          given(in.initial_c), given(in.peephole), lengths},
                         attrs);
  return all.size() < 3 ? CellOutputs{} : CellOutputs{all[0], all[1], all[2]};
}

struct State {
  Output h, c;
};

// One step: `a` is the projection [batch, gates · units] of its input.
State Step(const Builder& b, const Cell& cell, const CellInputs& in, Output a, const State& state, int64_t units) {
  const auto part = [&](Output x, int gate) {
    return b.Slice(x, ShapeOf(x).rank() - 1, gate * units, (gate + 1) * units);
  };
  const auto clipped = [&](Output x) {
    if (cell.clip <= 0) return x;
    return b.Minimum(b.Maximum(x, b.ScalarLike(x, -cell.clip)), b.ScalarLike(x, cell.clip));
  };
  const auto apply = [&](int activation, Output x) {
    return Apply(b, cell.activations[static_cast<size_t>(activation)], clipped(x));
  };
  const auto product = [&](Output h, Output kernel) { return b.Op("MatMul", {h, kernel}, {{"transpose_b", true}}); };
  Output r = product(state.h, in.recurrent_kernel);
  if (in.recurrent_bias) r = b.Op("BiasAdd", {r, in.recurrent_bias});
  if (cell.kind == Cell::Kind::kRnn) return {apply(0, b.Add(a, r)), {}};
  if (cell.kind == Cell::Kind::kGru) {
    const Output z = apply(0, b.Add(part(a, 0), part(r, 0))), reset = apply(0, b.Add(part(a, 1), part(r, 1)));
    Output candidate = b.Mul(reset, part(r, 2));
    if (!cell.reset_after) {
      candidate = product(b.Mul(reset, state.h), b.Slice(in.recurrent_kernel, 0, 2 * units, 3 * units));
      if (in.recurrent_bias) candidate = b.Add(candidate, part(in.recurrent_bias, 2));
    }
    const Output n = apply(1, b.Add(part(a, 2), candidate));
    return {b.Add(b.Mul(b.Sub(b.ScalarLike(z, 1), z), n), b.Mul(z, state.h)), {}};
  }
  const auto gate = [&](int index, int peephole, Output c) {
    Output x = b.Add(part(a, index), part(r, index));
    if (in.peephole && peephole >= 0) x = b.Add(x, b.Mul(part(in.peephole, peephole), c));
    return x;
  };
  const Output i = apply(0, gate(0, 0, state.c));
  const Output f = cell.input_forget ? b.Sub(b.ScalarLike(i, 1), i) : apply(0, gate(1, 1, state.c));
  const Output c = b.Add(b.Mul(f, state.c), b.Mul(i, apply(1, gate(2, -1, {}))));
  const Output o = apply(0, gate(3, 2, c));
  return {b.Mul(o, Apply(b, cell.activations[2], c)), c};
}

CellOutputs StepByStep(const Builder& b, const Cell& cell, const CellInputs& in) {
  const int time = cell.time_major ? 0 : 1;
  const int64_t steps = DimOf(in.x, time), units = DimOf(in.recurrent_kernel, 1);
  if (steps < 1 || units < 1 || steps > 4096) {
    b.Fail(FailedPrecondition(
        "the number of steps and of units must be known, and the steps at most 4096, not {} and {}", steps, units));
    return {};
  }
  const Output projection = Projection(b, in, in.bias);
  const Output zeros = b.Filled(TypeOf(in.x), b.Stack({b.Dim(in.x, 1 - time), b.Int(units)}, 0), 0);
  State state{in.initial_h ? in.initial_h : zeros, in.initial_c ? in.initial_c : zeros};
  std::vector<Output> rows(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = cell.reverse ? steps - 1 - i : i;
    State next = Step(b, cell, in, b.At(projection, time, t), state, units);
    Output& row = rows[static_cast<size_t>(t)];
    row = next.h;
    if (in.lengths) {
      const Output within =
          b.ExpandDims(b.Op("Greater", {in.lengths, b.ScalarLike(in.lengths, static_cast<double>(t))}), 1);
      row = b.Select(within, next.h, b.ScalarLike(next.h, 0));
      next.h = b.Select(within, next.h, state.h);
      if (next.c) next.c = b.Select(within, next.c, state.c);
    }
    state = next;
  }
  return {b.Stack(rows, time), state.h, state.c};
}

}  // namespace

StatusOr<Activation> ActivationOf(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = Activations().find(name);
  if (found == Activations().end()) return Unimplemented("the activation '{}'", name);
  return Activation{name, found->second.alpha, found->second.beta};
}

bool TakesAlpha(const Activation& f) {
  return f.name == "affine" || f.name == "leakyrelu" || f.name == "thresholdedrelu" || f.name == "scaledtanh" ||
         f.name == "hardsigmoid" || f.name == "elu";
}
bool TakesBeta(const Activation& f) { return f.name == "affine" || f.name == "scaledtanh" || f.name == "hardsigmoid"; }

CellOutputs RunCell(const Builder& b, const Cell& cell, const CellInputs& inputs) {
  const bool ours = !cell.input_forget &&
                    std::ranges::all_of(cell.activations, [](const Activation& f) { return Ours(f) != nullptr; });
  return ours ? WholeSequence(b, cell, inputs) : StepByStep(b, cell, inputs);
}

}  // namespace rivulet::onnx
