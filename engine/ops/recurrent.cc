// Recurrent layers over whole sequences. TensorFlow has no such ops (its layers are loops, or one library's); these are
// ours. The product of the inputs with the kernel does not depend on the recurrence, so it stays a MatMul of the graph,
// before the op: `projection` is x · kernel + bias. engine/layers/recurrent.h builds both.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_CELL_ACTIVATIONS \
  "{'tanh', 'sigmoid', 'hard_sigmoid', 'relu', 'softsign', 'softplus', 'elu', 'leaky_relu', 'linear'}"

// Sizes of one op, as far as they are known; every operand may tell one.
// Each operand states sizes that the others must have; taking them in one by one tells which input it is that
// disagrees.
struct Sizes {
  int64_t time = kUnknownDim, batch = kUnknownDim, units = kUnknownDim;
  bool time_major = false;

  Status Set(int64_t Sizes::*size, int64_t value, std::string_view what, std::string_view from) {
    if (value == kUnknownDim) return absl::OkStatus();
    if (this->*size != kUnknownDim && this->*size != value)
      return InvalidArgument("{} has {} {}, where an earlier input has {}", from, value, what, this->*size);
    this->*size = value;
    return absl::OkStatus();
  }
  // A multiple of the units.
  Status SetUnits(int64_t value, int64_t multiple, std::string_view from) {
    if (value == kUnknownDim) return absl::OkStatus();
    if (value % multiple != 0 || value == 0)
      return InvalidArgument("{} must be {} times the units long, but is {}", from, multiple, value);
    return Set(&Sizes::units, value / multiple, "units", from);
  }
  Status Rows(InferenceContext& c, int i, int64_t multiple, std::string_view name) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 3));
    RIVULET_RETURN_IF_ERROR(Set(&Sizes::time, shape.dim(time_major ? 0 : 1), "steps", name));
    RIVULET_RETURN_IF_ERROR(Set(&Sizes::batch, shape.dim(time_major ? 1 : 0), "sequences", name));
    return SetUnits(shape.dim(2), multiple, name);
  }
  Status Kernel(InferenceContext& c, int i, int64_t gates) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 2));
    RIVULET_RETURN_IF_ERROR(SetUnits(shape.dim(0), 1, "recurrent_kernel"));
    return SetUnits(shape.dim(1), gates, "a row of recurrent_kernel");
  }
  Status State(InferenceContext& c, int i, std::string_view name) {
    if (IsLeftOut(c.input(i)) || !c.input(i).known_rank()) return absl::OkStatus();
    if (c.input(i).rank() == 1 && c.input(i).dim(0) == kUnknownDim) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 2));
    RIVULET_RETURN_IF_ERROR(Set(&Sizes::batch, shape.dim(0), "sequences", name));
    return SetUnits(shape.dim(1), 1, name);
  }
  Status Vector(InferenceContext& c, int i, int64_t multiple, std::string_view name) {
    if (IsLeftOut(c.input(i))) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 1));
    return SetUnits(shape.dim(0), multiple, name);
  }
  Status Lengths(InferenceContext& c, int i) {
    if (IsLeftOut(c.input(i))) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 1));
    return Set(&Sizes::batch, shape.dim(0), "sequences", "sequence_lengths");
  }

  StatusOr<Shape> RowsOf(int64_t multiple) const {
    RIVULET_ASSIGN_OR_RETURN(const int64_t width, MultiplyDims(units, multiple));
    return time_major ? Shape{time, batch, width} : Shape{batch, time, width};
  }
  Shape StateShape() const { return Shape{batch, units}; }
};

Sizes SizesOf(InferenceContext& c) {
  Sizes sizes;
  sizes.time_major = c.attr<bool>("time_major");
  return sizes;
}

Status CheckClip(InferenceContext& c) {
  const float clip = c.attr<float>("clip");
  if (clip >= 0) return absl::OkStatus();
  return InvalidArgument("clip is {}; it must be positive, or 0 for none", clip);
}

Status LstmShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 0, 4, "projection"));
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 1, 4));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 2, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 3, "initial_c"));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 4, 3, "peephole"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 5));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  RIVULET_ASSIGN_OR_RETURN(const Shape gates, sizes.RowsOf(4));
  c.set_output(0, rows);
  c.set_output(1, sizes.StateShape());
  c.set_output(2, sizes.StateShape());
  c.set_output(3, gates);
  c.set_output(4, rows);
  return absl::OkStatus();
}

Status LstmGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 0, 4));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 1, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 2, "initial_c"));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 3, 3, "peephole"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 4));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 5, 1, "output"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 6, 4, "gates"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 7, 1, "cells"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 8, 1, "output_grad"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 9, "final_h_grad"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 10, "final_c_grad"));
  if (!IsLeftOut(c.input(11))) RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 11, 1, "cells_grad"));
  RIVULET_ASSIGN_OR_RETURN(const Shape gates, sizes.RowsOf(4));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  c.set_output(0, gates);
  c.set_output(1, rows);
  c.set_output(2, sizes.StateShape());
  c.set_output(3, sizes.StateShape());
  c.set_output(4, c.input(3));
  return absl::OkStatus();
}

Status GruShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 0, 3, "projection"));
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 1, 3));
  RIVULET_RETURN_IF_ERROR(sizes.Vector(c, 2, 3, "recurrent_bias"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 3, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  RIVULET_ASSIGN_OR_RETURN(const Shape gates, sizes.RowsOf(4));
  c.set_output(0, rows);
  c.set_output(1, sizes.StateShape());
  c.set_output(2, gates);
  return absl::OkStatus();
}

Status GruGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 0, 3));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 1, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 2));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 3, 1, "output"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 4, 4, "gates"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 5, 1, "output_grad"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 6, "final_h_grad"));
  RIVULET_ASSIGN_OR_RETURN(const Shape gates, sizes.RowsOf(3));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  c.set_output(0, gates);
  c.set_output(1, c.attr<bool>("reset_after") ? gates : Shape{0});
  c.set_output(2, rows);
  c.set_output(3, sizes.StateShape());
  return absl::OkStatus();
}

Status SimpleRnnShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 0, 1, "projection"));
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 1, 1));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 2, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 3));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  c.set_output(0, rows);
  c.set_output(1, sizes.StateShape());
  return absl::OkStatus();
}

Status SimpleRnnGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckClip(c));
  Sizes sizes = SizesOf(c);
  RIVULET_RETURN_IF_ERROR(sizes.Kernel(c, 0, 1));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 1, "initial_h"));
  RIVULET_RETURN_IF_ERROR(sizes.Lengths(c, 2));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 3, 1, "output"));
  RIVULET_RETURN_IF_ERROR(sizes.Rows(c, 4, 1, "output_grad"));
  RIVULET_RETURN_IF_ERROR(sizes.State(c, 5, "final_h_grad"));
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, sizes.RowsOf(1));
  c.set_output(0, rows);
  c.set_output(1, rows);
  c.set_output(2, sizes.StateShape());
  return absl::OkStatus();
}

// Gradients: the op of the backward pass walks the sequence; sums over it are products of the graph again.

Output Last(GradientOps& ops, Output x, int64_t begin, int64_t size) {
  return ops.Op("Slice", {x, ops.Ints({0, begin}), ops.Ints({-1, size})});
}

// [a, b, width] as [a · b, width].
Output FlattenRows(GradientOps& ops, Output x) {
  const Shape& shape = x.shape();
  const Output width = shape.known_rank() && shape.rank() == 3 && shape.dim(2) != kUnknownDim
                           ? ops.Ints({shape.dim(2)})
                           : ops.Op("StridedSlice", {ops.ShapeOf(x), ops.Ints({2}), ops.Ints({3}), ops.Ints({1})});
  return ops.Op("Reshape", {x, ops.Op("ConcatV2", {ops.Ints({-1}), width, ops.Int(0)})});
}

Output GradOrZeros(GradientContext& g, GradientOps& ops, int port) {
  return g.grad(port) ? g.grad(port) : ops.ZerosLike(g.output(port));
}

Output TransposedProduct(GradientOps& ops, Output a, Output b) {
  return ops.Op("MatMul", {a, b}, {{"transpose_a", true}});
}

// The sum over all rows of a's outer products with b's.
Output RowProduct(GradientOps& ops, Output a, Output b) {
  const Output left = FlattenRows(ops, a);
  return TransposedProduct(ops, left, FlattenRows(ops, b));
}

Status NoGradientOf(GradientContext& g, int port, std::string_view name) {
  if (!g.grad(port)) return absl::OkStatus();
  return Unimplemented("{} is for the backward pass; a loss cannot depend on it", name);
}

AttrMap SharedAttrs(const Node& node, std::initializer_list<const char*> more) {
  AttrMap attrs;
  for (const char* name : {"time_major", "reverse", "activation", "clip"}) attrs[name] = node.attrs().at(name);
  for (const char* name : more) attrs[name] = node.attrs().at(name);
  return attrs;
}

Status LstmGradient(GradientContext& g) {
  RIVULET_RETURN_IF_ERROR(NoGradientOf(g, 3, "gates"));
  RIVULET_RETURN_IF_ERROR(NoGradientOf(g, 4, "cells"));
  GradientOps ops(g);
  Node* grad = ops.AddNode("LSTMGrad",
                           {g.input(1), g.input(2), g.input(3), g.input(4), g.input(5), g.output(0), g.output(3),
                            g.output(4), GradOrZeros(g, ops, 0), GradOrZeros(g, ops, 1), GradOrZeros(g, ops, 2),
                            g.scope().Const(Tensor(g.output(0).dtype(), Shape{0}), "no_cells_grad")},
                           SharedAttrs(*g.node(), {"recurrent_activation", "output_activation"}));
  if (grad == nullptr) return ops.status();
  g.set_input_grad(0, grad->output(0));
  g.set_input_grad(1, RowProduct(ops, grad->output(1), grad->output(0)));
  if (!IsLeftOut(g.input(2).shape())) g.set_input_grad(2, grad->output(2));
  if (!IsLeftOut(g.input(3).shape())) g.set_input_grad(3, grad->output(3));
  g.set_input_grad(4, grad->output(4));
  return ops.status();
}

Status GruGradient(GradientContext& g) {
  RIVULET_RETURN_IF_ERROR(NoGradientOf(g, 2, "gates"));
  GradientOps ops(g);
  const bool reset_after = g.node()->attr<bool>("reset_after");
  Node* grad = ops.AddNode(
      "GRUGrad",
      {g.input(1), g.input(3), g.input(4), g.output(0), g.output(2), GradOrZeros(g, ops, 0), GradOrZeros(g, ops, 1)},
      SharedAttrs(*g.node(), {"recurrent_activation", "reset_after"}));
  if (grad == nullptr) return ops.status();
  g.set_input_grad(0, grad->output(0));
  const Output before = FlattenRows(ops, grad->output(2));
  const Output recurrent = FlattenRows(ops, grad->output(reset_after ? 1 : 0));
  if (reset_after) {
    g.set_input_grad(1, TransposedProduct(ops, before, recurrent));
  } else {
    // The candidate saw r · h, which the forward pass kept behind the three gates.
    const int64_t units = g.output(0).shape().dim(2);
    if (units == kUnknownDim)
      return Unimplemented("the gradient of a GRU with reset_after = false whose units are unknown when it is built");
    const Output reset = Last(ops, FlattenRows(ops, g.output(2)), 3 * units, units);
    g.set_input_grad(
        1, ops.Op("ConcatV2", {TransposedProduct(ops, before, Last(ops, recurrent, 0, 2 * units)),
                               TransposedProduct(ops, reset, Last(ops, recurrent, 2 * units, units)), ops.Int(1)}));
  }
  if (!IsLeftOut(g.input(2).shape())) g.set_input_grad(2, ops.Sum(recurrent, ops.Ints({0}), /*keep_dims=*/false));
  if (!IsLeftOut(g.input(3).shape())) g.set_input_grad(3, grad->output(3));
  return ops.status();
}

Status SimpleRnnGradient(GradientContext& g) {
  GradientOps ops(g);
  Node* grad =
      ops.AddNode("SimpleRNNGrad",
                  {g.input(1), g.input(2), g.input(3), g.output(0), GradOrZeros(g, ops, 0), GradOrZeros(g, ops, 1)},
                  SharedAttrs(*g.node(), {}));
  if (grad == nullptr) return ops.status();
  g.set_input_grad(0, grad->output(0));
  g.set_input_grad(1, RowProduct(ops, grad->output(1), grad->output(0)));
  if (!IsLeftOut(g.input(2).shape())) g.set_input_grad(2, grad->output(2));
  return ops.status();
}

constexpr char kNoSecondOrder[] = "second derivatives of recurrent layers are not provided";

// What all have: rows are [batch, time, width], or [time, batch, width] where time_major.
#define RIVULET_SEQUENCE_ATTRS                                   \
  Attr("T: floattype")                                           \
      .Attr("Tlen: {int32, int64} = DT_INT32")                   \
      .Attr("time_major: bool = false")                          \
      .Attr("reverse: bool = false")                             \
      .Attr("activation: " RIVULET_CELL_ACTIVATIONS " = 'tanh'") \
      .Attr("clip: float = 0")
#define RIVULET_GATE_ATTR Attr("recurrent_activation: " RIVULET_CELL_ACTIVATIONS " = 'sigmoid'")

#define RIVULET_SEQUENCE_DOC                                                                                          \
  " Not an op of TensorFlow. Rows are [batch, time, width], or [time, batch, width] where time_major. `projection` "  \
  "is "                                                                                                               \
  "x · kernel + bias for all steps at once. An input marked optional is left out by a vector without elements. "     \
  "`reverse` walks from the last step to the first; outputs stay at their inputs' steps. Beyond a sequence's length " \
  "the state holds and the output is zero (a reversed one begins at its length). `clip` (0: none) bounds the inputs " \
  "of the activations of gates and candidate. hard_sigmoid is 0.2 x + 0.5 within [0, 1], leaky_relu has slope 0.01."

RIVULET_OP("LSTM")
    .Input("projection: T")
    .Input("recurrent_kernel: T")
    .Input("initial_h: T")
    .Input("initial_c: T")
    .Input("peephole: T")
    .Input("sequence_lengths: Tlen")
    .Output("output: T")
    .Output("final_h: T")
    .Output("final_c: T")
    .Output("gates: T")
    .Output("cells: T")
    .RIVULET_SEQUENCE_ATTRS.RIVULET_GATE_ATTR.Attr("output_activation: " RIVULET_CELL_ACTIVATIONS " = 'tanh'")
    .Shape(LstmShape)
    .Gradient(LstmGradient)
    .Doc(
        "Long short-term memory over sequences. Gates stand in Keras' order i, f, c, o along widths of 4 · units. The "
        "step is i, f, o = recurrent_activation(a), c' = f · c + i · activation(a_c), h = o · output_activation(c'). "
        "Optional inputs are initial_h, initial_c [batch, units], peephole [3 · units] (i and f see c, o sees c') and "
        "sequence_lengths [batch]. The gradient reads `gates` and `cells`." RIVULET_SEQUENCE_DOC);

RIVULET_OP("LSTMGrad")
    .Input("recurrent_kernel: T")
    .Input("initial_h: T")
    .Input("initial_c: T")
    .Input("peephole: T")
    .Input("sequence_lengths: Tlen")
    .Input("output: T")
    .Input("gates: T")
    .Input("cells: T")
    .Input("output_grad: T")
    .Input("final_h_grad: T")
    .Input("final_c_grad: T")
    .Input("cells_grad: T")
    .Output("projection_grad: T")
    .Output("previous_h: T")
    .Output("initial_h_grad: T")
    .Output("initial_c_grad: T")
    .Output("peephole_grad: T")
    .RIVULET_SEQUENCE_ATTRS.RIVULET_GATE_ATTR.Attr("output_activation: " RIVULET_CELL_ACTIVATIONS " = 'tanh'")
    .Attr("cell_clip: float = 0")
    .Shape(LstmGradShape)
    .NotDifferentiable(kNoSecondOrder)
    .Doc(
        "The backward pass of LSTM. The gradient of recurrent_kernel is previous_h, the state before each step, times "
        "projection_grad over all steps. The optional cells_grad is the gradient of the cells, bounded in the forward "
        "pass to ±cell_clip if that is above 0. Not an op of TensorFlow.");

RIVULET_OP("GRU")
    .Input("projection: T")
    .Input("recurrent_kernel: T")
    .Input("recurrent_bias: T")
    .Input("initial_h: T")
    .Input("sequence_lengths: Tlen")
    .Output("output: T")
    .Output("final_h: T")
    .Output("gates: T")
    .RIVULET_SEQUENCE_ATTRS.RIVULET_GATE_ATTR.Attr("reset_after: bool = true")
    .Shape(GruShape)
    .Gradient(GruGradient)
    .Doc(
        "Gated recurrent units over sequences. Gates stand in Keras' and ONNX's order z, r, h along widths of 3 · "
        "units. The gates are z, r = recurrent_activation(a). With reset_after (ONNX: linear_before_reset) the "
        "candidate is n = activation(a_h + r · (h · R_h + b_h)). Otherwise it is n = activation(a_h + (r · h) · R_h + "
        "b_h). The new state is h' = z · h + (1 - z) · n. Optional inputs are recurrent_bias [3 · units], initial_h "
        "[batch, units] and sequence_lengths [batch]. The gradient reads `gates` [.., 4 · "
        "units]." RIVULET_SEQUENCE_DOC);

RIVULET_OP("GRUGrad")
    .Input("recurrent_kernel: T")
    .Input("initial_h: T")
    .Input("sequence_lengths: Tlen")
    .Input("output: T")
    .Input("gates: T")
    .Input("output_grad: T")
    .Input("final_h_grad: T")
    .Output("projection_grad: T")
    .Output("recurrent_grad: T")
    .Output("previous_h: T")
    .Output("initial_h_grad: T")
    .RIVULET_SEQUENCE_ATTRS.RIVULET_GATE_ATTR.Attr("reset_after: bool = true")
    .Shape(GruGradShape)
    .NotDifferentiable(kNoSecondOrder)
    .Doc(
        "The backward pass of GRU. recurrent_grad is the gradient of h · R + b where reset_after, and empty otherwise: "
        "projection_grad then. Not an op of TensorFlow.");

RIVULET_OP("SimpleRNN")
    .Input("projection: T")
    .Input("recurrent_kernel: T")
    .Input("initial_h: T")
    .Input("sequence_lengths: Tlen")
    .Output("output: T")
    .Output("final_h: T")
    .RIVULET_SEQUENCE_ATTRS.Shape(SimpleRnnShape)
    .Gradient(SimpleRnnGradient)
    .Doc(
        "h' = activation(projection + h · recurrent_kernel) over sequences. initial_h [batch, units] and "
        "sequence_lengths [batch] are optional." RIVULET_SEQUENCE_DOC);

RIVULET_OP("SimpleRNNGrad")
    .Input("recurrent_kernel: T")
    .Input("initial_h: T")
    .Input("sequence_lengths: Tlen")
    .Input("output: T")
    .Input("output_grad: T")
    .Input("final_h_grad: T")
    .Output("projection_grad: T")
    .Output("previous_h: T")
    .Output("initial_h_grad: T")
    .RIVULET_SEQUENCE_ATTRS.Shape(SimpleRnnGradShape)
    .NotDifferentiable(kNoSecondOrder)
    .Doc("The backward pass of SimpleRNN. Not an op of TensorFlow.");

}  // namespace
}  // namespace rivulet
