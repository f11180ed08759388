// One step of an LSTM or a GRU, as TensorFlow's fused cells have it. Their gradients are products and elementwise ops
// of what the cell gave, so they have gradients in turn.
#include <cmath>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// Merges sizes from several operands, by name.
class CellSizes {
 public:
  int64_t batch = kUnknownDim, inputs = kUnknownDim, units = kUnknownDim;

  Status Matrix(InferenceContext& c, int i, std::string_view name, int64_t CellSizes::*columns) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 2));
    RIVULET_RETURN_IF_ERROR(Set(&CellSizes::batch, shape.dim(0), name, 0));
    return Set(columns, shape.dim(1), name, 1);
  }
  Status Vector(InferenceContext& c, int i, std::string_view name, int64_t multiple) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 1));
    return Multiple(shape.dim(0), name, multiple);
  }
  // [inputs + units, multiple · units]
  Status Weights(InferenceContext& c, int i, std::string_view name, int64_t multiple) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 2));
    RIVULET_RETURN_IF_ERROR(Multiple(shape.dim(1), name, multiple));
    if (shape.dim(0) == kUnknownDim || inputs == kUnknownDim || units == kUnknownDim) return absl::OkStatus();
    if (shape.dim(0) == inputs + units) return absl::OkStatus();
    return InvalidArgument("{} has {} rows, where x has {} columns and the state {}", name, shape.dim(0), inputs,
                           units);
  }

 private:
  Status Set(int64_t CellSizes::*size, int64_t value, std::string_view name, int axis) {
    if (value == kUnknownDim) return absl::OkStatus();
    if (this->*size != kUnknownDim && this->*size != value)
      return InvalidArgument("axis {} of {} has {} elements, where an earlier input has {}", axis, name, value,
                             this->*size);
    this->*size = value;
    return absl::OkStatus();
  }
  Status Multiple(int64_t value, std::string_view name, int64_t multiple) {
    if (value == kUnknownDim) return absl::OkStatus();
    if (units != kUnknownDim && value != units * multiple)
      return InvalidArgument("{} must be {} times the units long, {}, but is {}", name, multiple, units * multiple,
                             value);
    return absl::OkStatus();
  }
};

Status LstmCellShape(InferenceContext& c) {
  CellSizes sizes;
  RIVULET_RETURN_IF_ERROR(sizes.Matrix(c, 0, "x", &CellSizes::inputs));
  RIVULET_RETURN_IF_ERROR(sizes.Matrix(c, 1, "cs_prev", &CellSizes::units));
  RIVULET_RETURN_IF_ERROR(sizes.Matrix(c, 2, "h_prev", &CellSizes::units));
  RIVULET_RETURN_IF_ERROR(sizes.Weights(c, 3, "w", 4));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 4, "wci", 1));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 5, "wcf", 1));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 6, "wco", 1));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 7, "b", 4));
  for (int i = 0; i < 7; ++i) c.set_output(i, Shape{sizes.batch, sizes.units});
  return absl::OkStatus();
}

Status GruCellShape(InferenceContext& c) {
  CellSizes sizes;
  RIVULET_RETURN_IF_ERROR(sizes.Matrix(c, 0, "x", &CellSizes::inputs));
  RIVULET_RETURN_IF_ERROR(sizes.Matrix(c, 1, "h_prev", &CellSizes::units));
  RIVULET_RETURN_IF_ERROR(sizes.Weights(c, 2, "w_ru", 2));
  RIVULET_RETURN_IF_ERROR(sizes.Weights(c, 3, "w_c", 1));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 4, "b_ru", 2));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 5, "b_c", 1));
  for (int i = 0; i < 4; ++i) c.set_output(i, Shape{sizes.batch, sizes.units});
  return absl::OkStatus();
}

// Helpers of the cells' gradient functions: sums of present gradients, and the two halves of [x, h].
class CellGradient {
 public:
  explicit CellGradient(GradientContext& g) : g_(g), ops_(g) {}
  GradientOps& ops() { return ops_; }

  // The sum of those that are not empty.
  Output Sum(std::initializer_list<Output> addends) {
    Output sum;
    for (const Output& addend : addends)
      if (addend) sum = sum ? ops_.Add(sum, addend) : addend;
    return sum;
  }
  Output Times(Output a, Output b) { return a && b ? ops_.Mul(a, b) : Output{}; }
  Output ThroughSigmoid(Output y, Output grad) { return grad ? ops_.Op("SigmoidGrad", {y, grad}) : Output{}; }
  Output ThroughTanh(Output y, Output grad) { return grad ? ops_.Op("TanhGrad", {y, grad}) : Output{}; }
  Output OrZeros(Output grad, Output like) { return grad ? grad : ops_.ZerosLike(like); }
  Output Concat(std::vector<Output> parts) {
    parts.push_back(ops_.Int(1));
    return ops_.Op("ConcatV2", std::move(parts));
  }
  Output Rows(Output x) { return x ? ops_.Sum(x, ops_.Ints({0}), /*keep_dims=*/false) : Output{}; }
  Output Product(Output a, Output b, bool transpose_a, bool transpose_b) {
    return ops_.Op("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  }
  // The gradient of [x, h] cut in two.
  std::pair<Output, Output> Cut(Output both) {
    const int64_t inputs = g_.input(0).shape().dim(1);
    return {ops_.Op("Slice", {both, ops_.Ints({0, 0}), ops_.Ints({-1, inputs})}),
            ops_.Op("Slice", {both, ops_.Ints({0, inputs}), ops_.Ints({-1, -1})})};
  }
  Status CheckKnown() const {
    const Shape& x = g_.input(0).shape();
    if (x.known_rank() && x.rank() == 2 && x.dim(1) != kUnknownDim) return absl::OkStatus();
    return Unimplemented("the gradient of a cell whose inputs have an unknown number when it is built");
  }

 private:
  GradientContext& g_;
  GradientOps ops_;
};

Status LstmCellGradient(GradientContext& g) {
  CellGradient cell(g);
  RIVULET_RETURN_IF_ERROR(cell.CheckKnown());
  GradientOps& ops = cell.ops();
  const bool peephole = g.node()->attr<bool>("use_peephole");
  const float clip = g.node()->attr<float>("cell_clip");
  const Output x = g.input(0), cs_prev = g.input(1), h_prev = g.input(2), w = g.input(3);
  const Output i = g.output(0), cs = g.output(1), f = g.output(2), o = g.output(3), ci = g.output(4), co = g.output(5);
  const Output h_grad = g.grad(6);
  const Output o_grad = cell.ThroughSigmoid(o, cell.Sum({g.grad(3), cell.Times(h_grad, co)}));
  Output cs_grad = cell.Sum({g.grad(1), cell.ThroughTanh(co, cell.Sum({g.grad(5), cell.Times(h_grad, o)})),
                             peephole ? cell.Times(o_grad, g.input(6)) : Output{}});
  if (cs_grad && clip > 0) {
    const Output inside = ops.Op("Less", {ops.Op("Abs", {cs}), ops.Scalar(cs.dtype(), static_cast<double>(clip))});
    cs_grad = ops.Mul(cs_grad, ops.Op("Cast", {inside}, {{"DstT", cs.dtype()}}));
  }
  const Output i_grad = cell.ThroughSigmoid(i, cell.Sum({g.grad(0), cell.Times(cs_grad, ci)}));
  const Output ci_grad = cell.ThroughTanh(ci, cell.Sum({g.grad(4), cell.Times(cs_grad, i)}));
  const Output f_grad = cell.ThroughSigmoid(f, cell.Sum({g.grad(2), cell.Times(cs_grad, cs_prev)}));
  const Output gates = cell.Concat(
      {cell.OrZeros(i_grad, i), cell.OrZeros(ci_grad, ci), cell.OrZeros(f_grad, f), cell.OrZeros(o_grad, o)});
  const auto [x_grad, h_prev_grad] = cell.Cut(cell.Product(gates, w, false, true));
  g.set_input_grad(0, x_grad);
  g.set_input_grad(1, cell.Sum({cell.Times(cs_grad, f), peephole ? cell.Times(i_grad, g.input(4)) : Output{},
                                peephole ? cell.Times(f_grad, g.input(5)) : Output{}}));
  g.set_input_grad(2, h_prev_grad);
  g.set_input_grad(3, cell.Product(cell.Concat({x, h_prev}), gates, true, false));
  if (peephole) {
    g.set_input_grad(4, cell.Rows(cell.Times(i_grad, cs_prev)));
    g.set_input_grad(5, cell.Rows(cell.Times(f_grad, cs_prev)));
    g.set_input_grad(6, cell.Rows(cell.Times(o_grad, cs)));
  }
  g.set_input_grad(7, cell.Rows(gates));
  return ops.status();
}

Status GruCellGradient(GradientContext& g) {
  CellGradient cell(g);
  RIVULET_RETURN_IF_ERROR(cell.CheckKnown());
  GradientOps& ops = cell.ops();
  const Output x = g.input(0), h_prev = g.input(1);
  const Output r = g.output(0), u = g.output(1), c = g.output(2), h_grad = g.grad(3);
  const Output u_grad = cell.ThroughSigmoid(u, cell.Sum({g.grad(1), cell.Times(h_grad, ops.Sub(h_prev, c))}));
  const Output c_part = h_grad ? ops.Sub(h_grad, ops.Mul(h_grad, u)) : Output{};
  const Output c_grad = cell.OrZeros(cell.ThroughTanh(c, cell.Sum({g.grad(2), c_part})), c);
  const auto [x_by_c, reset_grad] = cell.Cut(cell.Product(c_grad, g.input(3), false, true));
  const Output r_grad = cell.ThroughSigmoid(r, cell.Sum({g.grad(0), ops.Mul(reset_grad, h_prev)}));
  const Output gates = cell.Concat({r_grad, cell.OrZeros(u_grad, u)});
  const auto [x_by_gates, h_by_gates] = cell.Cut(cell.Product(gates, g.input(2), false, true));
  g.set_input_grad(0, ops.Add(x_by_c, x_by_gates));
  g.set_input_grad(1, cell.Sum({cell.Times(h_grad, u), ops.Mul(reset_grad, r), h_by_gates}));
  g.set_input_grad(2, cell.Product(cell.Concat({x, h_prev}), gates, true, false));
  g.set_input_grad(3, cell.Product(cell.Concat({x, ops.Mul(h_prev, r)}), c_grad, true, false));
  g.set_input_grad(4, cell.Rows(gates));
  g.set_input_grad(5, cell.Rows(c_grad));
  return ops.status();
}

RIVULET_OP("LSTMBlockCell")
    .Input("x: T")
    .Input("cs_prev: T")
    .Input("h_prev: T")
    .Input("w: T")
    .Input("wci: T")
    .Input("wcf: T")
    .Input("wco: T")
    .Input("b: T")
    .Output("i: T")
    .Output("cs: T")
    .Output("f: T")
    .Output("o: T")
    .Output("ci: T")
    .Output("co: T")
    .Output("h: T")
    .Attr("forget_bias: float = 1")
    .Attr("cell_clip: float = 3")
    .Attr("use_peephole: bool = false")
    .Attr("T: floattype")
    .Shape(LstmCellShape)
    .Gradient(LstmCellGradient)
    .Doc(
        "One step of an LSTM. The product [x, h_prev] · w + b gives the gates i, ci, f, o in this order. Sigmoid "
        "follows for i, f (after forget_bias is added) and o, and tanh for ci. The cell is cs = ci · i + cs_prev · f, "
        "bounded to ±cell_clip if that is positive. The outputs are co = tanh(cs) and h = co · o. With use_peephole, "
        "cs_prev · wci, cs_prev · wcf and cs · wco are added to the gates i, f and o. The gradient of cs is 0 where it "
        "was bounded.");

RIVULET_OP("GRUBlockCell")
    .Input("x: T")
    .Input("h_prev: T")
    .Input("w_ru: T")
    .Input("w_c: T")
    .Input("b_ru: T")
    .Input("b_c: T")
    .Output("r: T")
    .Output("u: T")
    .Output("c: T")
    .Output("h: T")
    .Attr("T: floattype")
    .Shape(GruCellShape)
    .Gradient(GruCellGradient)
    .Doc(
        "One step of a GRU: r, u = sigmoid([x, h_prev] · w_ru + b_ru), c = tanh([x, h_prev · r] · w_c + b_c), h = u · "
        "h_prev + (1 - u) · c.");

}  // namespace
}  // namespace rivulet
